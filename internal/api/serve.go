package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	maxConnections = 256
	maxHeaderBytes = 32 << 10
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	// finishTime and abortTime are what requests have to finish by themselves
	// and then to obey their ended context when the agent stops, which is to
	// take less than two seconds in all.
	finishTime = 500 * time.Millisecond
	abortTime  = 500 * time.Millisecond
)

// Serve answers on l until ctx ends, lets the requests under way finish for half
// a second, cancels those left, and returns after the last has ended or another
// half second, whichever is first. It closes l. The error is nil after an
// orderly stop.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	// Requests outlive ctx, to finish; their own end is the cancel below.
	requests, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(l, maxConnections)) }()

	select {
	case err := <-served:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	err := shutdown(requests, server, finishTime)
	if errors.Is(err, context.DeadlineExceeded) {
		abort()
		err = shutdown(context.WithoutCancel(requests), server, abortTime)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests were cut off because they did not end when the agent stopped")
		err = server.Close()
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func shutdown(ctx context.Context, server *http.Server, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return server.Shutdown(ctx)
}
