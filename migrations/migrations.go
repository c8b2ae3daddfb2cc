// Package migrations holds the SQL that makes and changes the schema of
// podstead.db, in goose's format. Files are only ever added: a released one is
// never edited.
//
// Comments inside CREATE TABLE and CREATE VIEW are kept by SQLite, and the data
// dictionary in schema/ is generated from them: the first comment line says what
// one row is, and every column has its own comment on its line, which may go on
// in comment lines below.
package migrations

import "embed"

// FS has the migrations at its root.
//
//go:embed *.sql
var FS embed.FS
