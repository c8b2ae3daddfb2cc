package introspect

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// guard is the authorizer of every connection. SQLite asks it about each thing
// that a statement would do, while compiling it.
type guard struct {
	// tables are the names that may be read; nil until learn has read them,
	// before which nobody else's statement runs.
	tables   atomic.Pointer[map[string]bool]
	learning sync.Mutex
}

func (g *guard) install(conn sqlite.ExecQuerierContext, _ string) error {
	r, ok := conn.(sqlite.AuthorizerRegisterer)
	if !ok {
		return errors.New("the SQLite driver has no authorizer")
	}
	return r.RegisterAuthorizer(g.authorize)
}

// virtual are the table-valued functions that may be used. Not among them are
// sqlite_dbpage and dbstat, which show the file's bytes.
var virtual = []string{
	"sqlite_schema", "sqlite_master", "json_each", "json_tree", "jsonb_each", "jsonb_tree",
	"pragma_table_list", "pragma_table_info", "pragma_table_xinfo", "pragma_index_list", "pragma_index_info", "pragma_foreign_key_list",
}

// pragmas are those behind the table-valued functions. SQLite compiles them
// when such a function is read; as statements of their own they are refused
// before.
var pragmas = map[string]bool{
	"table_list": true, "table_info": true, "table_xinfo": true, "index_list": true, "index_info": true, "foreign_key_list": true,
}

// functions that may be called. Not among them are those that load code, show
// the connection or the file, log, make something large out of nothing, or take
// minutes over a value of a megabyte in one step (json_patch, json_pretty).
var functions = allowed(`
-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh count
cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
format glob group_concat hex if ifnull iif instr json json_array json_array_insert json_array_length
json_error_position json_extract json_group_array json_group_object json_insert json_object
json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract
jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_remove jsonb_replace jsonb_set
julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max min mod nth_value
ntile nullif octet_length percent_rank pi pow power printf quote radians random rank replace round row_number rtrim
sign sin sinh soundex sqlite_version sqrt strftime string_agg substr substring subtype sum tan tanh time timediff
total trim trunc typeof unhex unicode unistr unistr_quote unixepoch unlikely upper`)

func allowed(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

// writes are the words with which statements begin that do more than read.
var writes = allowed(`insert update delete replace create drop alter begin commit end rollback savepoint release
attach detach vacuum reindex analyze pragma`)

// learn reads which tables there are, once.
func (g *guard) learn(ctx context.Context, conn *sql.Conn) error {
	g.learning.Lock()
	defer g.learning.Unlock()
	if g.tables.Load() != nil {
		return nil
	}
	rows, err := conn.QueryContext(ctx, `SELECT lower(name) FROM sqlite_schema WHERE type IN ('table', 'view')`)
	if err != nil {
		return err
	}
	defer rows.Close()
	set := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		set[name] = true
	}
	for _, name := range virtual {
		set[name] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	g.tables.Store(&set)
	return nil
}

// authorize decides by action alone, and for reading, calling and pragmas by
// name. Whatever is not known is denied.
func (g *guard) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
	ok := false
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRecursive:
		ok = true
	case sqlite.AuthRead:
		ok = g.mayRead(arg1, arg2)
	case sqlite.AuthFunction:
		ok = functions[strings.ToLower(arg2)]
	case sqlite.AuthPragma:
		ok = pragmas[strings.ToLower(arg1)]
	}
	if ok {
		return sqlite.AuthorizerOK
	}
	return sqlite.AuthorizerDeny
}

// mayRead: with an empty column SQLite asks about a table of which no column is
// used, which may also be a name from a WITH clause. Nothing but its number of
// rows can be learnt then.
func (g *guard) mayRead(table, column string) bool {
	tables := g.tables.Load()
	if tables == nil || (*tables)[strings.ToLower(table)] {
		return true
	}
	return column == "" && !strings.HasPrefix(strings.ToLower(table), "sqlite_") && !strings.EqualFold(table, "dbstat")
}
