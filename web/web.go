// Package web embeds what the agent serves to people: the documentation. It
// holds no code.
package web

import "embed"

// Files has the folder docs.
//
//go:embed docs
var Files embed.FS
