package cli

import (
	"context"
	"fmt"
	"io"
	"os"
)

// inputLimit is more than the agent takes of a manifest or a query, so that it is
// the agent that says what is too much.
const inputLimit = 4<<20 + 1

// readInput reads a file or, for "-", standard input, up to the limit. A FIFO or
// a terminal may never come to an end: the context ends the waiting, and the read
// is left to end with the process.
func (s *session) readInput(ctx context.Context, path string) (string, error) {
	name := path
	if path == "-" {
		name = "standard input"
	}
	type input struct {
		text []byte
		err  error
	}
	read := make(chan input, 1)
	go func() {
		text, err := s.readAll(path)
		read <- input{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("read %s: %w", name, ctx.Err())
	case in := <-read:
		if in.err != nil {
			return "", fmt.Errorf("read %s: %w", name, in.err)
		}
		return string(in.text), nil
	}
}

func (s *session) readAll(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(s.Stdin, inputLimit))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, inputLimit))
}
