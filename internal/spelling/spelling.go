// Package spelling finds the word that somebody most likely meant to write. It
// owns no goroutine and does no I/O.
package spelling

import "strings"

// Nearest returns the known word that the given one is most likely a slip of:
// the one nearest to it, at most one letter away for each four that it has, three
// in all, or one that begins with it. Case does not count. It is empty when there
// is none.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, least := "", 1+min(3, (len(word)+3)/4)
	for _, k := range known {
		lower := strings.ToLower(k)
		d := distance(word, lower)
		if strings.HasPrefix(lower, word) {
			d = min(d, 1)
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// maxWord keeps what a hostile text costs small; no known word is longer.
const maxWord = 64

// distance counts the insertions, deletions and replacements of bytes that lead
// from one word to the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
