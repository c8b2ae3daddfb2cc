package store

import (
	"context"

	"podstead.io/podstead/internal/pod"
)

type imageRow struct {
	ID        string `db:"id"`
	SizeBytes int64  `db:"size_bytes"`
	CreatedAt stamp  `db:"created_at"`
}

type imageNameRow struct {
	Name    string `db:"name"`
	ImageID string `db:"image_id"`
	Digest  bool   `db:"digest"`
}

// imageRows are the rows of a set of images. Should two images claim one name,
// the lesser ID has it, so that listing the same set again changes nothing.
func imageRows(images []pod.Image) (map[string]imageRow, map[string]imageNameRow) {
	rows, names := map[string]imageRow{}, map[string]imageNameRow{}
	add := func(id string, list []string, digest bool) {
		for _, n := range list {
			if before, taken := names[n]; !taken || id < before.ImageID {
				names[n] = imageNameRow{Name: n, ImageID: id, Digest: digest}
			}
		}
	}
	for _, i := range images {
		rows[i.ID] = imageRow{ID: i.ID, SizeBytes: i.SizeBytes, CreatedAt: stampOf(i.CreatedAt)}
		add(i.ID, i.Names, false)
		add(i.ID, i.Digests, true)
	}
	return rows, names
}

// ObserveImages replaces the whole set of images, writing only differences. It
// wakes the pods that ask for a name whose image changed.
func (s *Store) ObserveImages(ctx context.Context, images []pod.Image) error {
	rows, names := imageRows(images)
	return s.Write(ctx, "record images", func(t *WriteTx) error {
		var storedRows []imageRow
		if err := t.Select(&storedRows, `SELECT id, size_bytes, created_at FROM observed_images`); err != nil {
			return err
		}
		var storedNames []imageNameRow
		if err := t.Select(&storedNames, `SELECT name, image_id, digest FROM observed_image_names`); err != nil {
			return err
		}
		before := make(map[string]imageRow, len(storedRows))
		for _, r := range storedRows {
			before[r.ID] = r
		}
		beforeNames := make(map[string]imageNameRow, len(storedNames))
		for _, n := range storedNames {
			beforeNames[n.Name] = n
		}
		if err := t.putImages(rows, before, names, beforeNames); err != nil {
			return err
		}
		return t.dropImages(rows, before, names, beforeNames)
	})
}

func (t *WriteTx) putImages(rows, before map[string]imageRow, names, beforeNames map[string]imageNameRow) error {
	for id, r := range rows {
		if before[id] == r {
			continue
		}
		err := t.named(`INSERT INTO observed_images (id, size_bytes, created_at) VALUES (:id, :size_bytes, :created_at)
			ON CONFLICT (id) DO UPDATE SET size_bytes = excluded.size_bytes, created_at = excluded.created_at`, r)
		if err != nil {
			return err
		}
	}
	for name, n := range names {
		if beforeNames[name] == n {
			continue
		}
		err := t.named(`INSERT INTO observed_image_names (name, image_id, digest) VALUES (:name, :image_id, :digest)
			ON CONFLICT (name) DO UPDATE SET image_id = excluded.image_id, digest = excluded.digest`, n)
		if err != nil {
			return err
		}
		if err := t.touchImage(name); err != nil {
			return err
		}
	}
	return nil
}

func (t *WriteTx) dropImages(rows, before map[string]imageRow, names, beforeNames map[string]imageNameRow) error {
	for name := range beforeNames {
		if _, stays := names[name]; stays {
			continue
		}
		if _, err := t.Exec(`DELETE FROM observed_image_names WHERE name = ?`, name); err != nil {
			return err
		}
		if err := t.touchImage(name); err != nil {
			return err
		}
	}
	for id := range before {
		if _, stays := rows[id]; stays {
			continue
		}
		if _, err := t.Exec(`DELETE FROM observed_images WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

func (t *WriteTx) touchImage(name string) error {
	return t.touchAll(`SELECT DISTINCT pod_uid FROM desired_containers WHERE image_ref = ? AND wanted`, name)
}

// imagesFor maps the images that the containers ask for to the IDs present.
func (t *ReadTx) imagesFor(containers []containerRow) (map[string]string, error) {
	images := map[string]string{}
	for _, c := range containers {
		if _, seen := images[c.Image]; seen || !c.Wanted {
			continue
		}
		var id string
		found, err := t.find(&id, `SELECT image_id FROM observed_image_names WHERE name = ?`, c.ImageRef)
		if err != nil {
			return nil, err
		}
		if found {
			images[c.Image] = id
		}
	}
	return images, nil
}
