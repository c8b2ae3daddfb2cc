package introspect

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"podstead.io/podstead/internal/store/dictionary"
)

// selectInto scans all rows of a query on the connection, as sqlx does.
func selectInto(conn *sql.Conn) dictionary.Select {
	return func(ctx context.Context, dest any, query string, args ...any) error {
		rows, err := conn.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		return sqlx.StructScan(rows, dest)
	}
}
