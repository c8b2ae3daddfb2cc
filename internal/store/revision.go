package store

import "hash/fnv"

// revisionStep is what one change adds to a revision.
const revisionStep = 1_000_000_000

// revisionAfter is the revision that follows one, 0 before the first: the number
// of changes times revisionStep, and below that what the manifest hashes to that
// brought the last. A power cut may lose an edit whose containers run by then; the
// revision of the edit that takes its place counts the same, and differs.
func revisionAfter(revision int64, manifest string) int64 {
	return (revision/revisionStep+1)*revisionStep + fingerprint(manifest)
}

// broughtBy reports whether it was this manifest that brought the revision.
func broughtBy(revision int64, manifest string) bool {
	return revision%revisionStep == fingerprint(manifest)
}

func fingerprint(manifest string) int64 {
	h := fnv.New64a()
	h.Write([]byte(manifest)) //nolint:errcheck // it never fails
	return int64(h.Sum64() % revisionStep)
}
