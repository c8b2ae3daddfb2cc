package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/migrations"
)

// migrate brings the schema to this binary's version, and returns the versions
// that were applied.
func migrate(ctx context.Context, db *sqlx.DB, path string) ([]int64, error) {
	const op = "migrate database"
	p, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.FS, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return nil, &pod.Error{Class: pod.Invalid, Op: op, Object: path, Err: fmt.Errorf(
			"its schema is version %d and this podsteadd knows versions up to %d: run the podsteadd that wrote it or a newer one", current, target)}
	}
	if current == target {
		return nil, nil // to say so would be a write, which a full disk refuses
	}
	results, err := p.Up(ctx)
	if err != nil {
		if f := faultOf(err); f != faultNone {
			return nil, err
		}
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			err = fmt.Errorf("version %d: %w", partial.Failed.Source.Version, partial.Err)
		}
		return nil, &pod.Error{Class: pod.Invalid, Op: op, Object: path, Err: fmt.Errorf(
			"the schema can't be changed from version %d to %d, and is as it was: run the podsteadd that wrote it, or move the file away to restore desired state from the backup (%w)", current, target, err)}
	}
	var applied []int64
	for _, r := range results {
		applied = append(applied, r.Source.Version)
	}
	return applied, nil
}
