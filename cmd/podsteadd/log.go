package main

import (
	"io"
	"log/slog"

	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"

	"podstead.io/podstead/internal/config"
)

// newLogger makes the agent's log and leads the logs of the libraries there, so
// that everything comes in one format and at one level.
func newLogger(cfg config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if cfg.LogFormat == config.LogJSON {
		handler = slog.NewJSONHandler(w, options)
	}
	log := slog.New(handler)
	slog.SetDefault(log)    // and with it the standard library's log
	klog.SetSlogLogger(log) // Kubernetes
	redirectLogrus(log)     // Podman's bindings and registry configuration
	return log
}

// redirectLogrus leads what logrus's users log to log.
func redirectLogrus(log *slog.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.DebugLevel)
	logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	logrus.AddHook(logrusHook{log})
}

// logrusHook passes entries on.
type logrusHook struct{ log *slog.Logger }

// Levels implements [logrus.Hook].
func (logrusHook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements [logrus.Hook].
func (h logrusHook) Fire(entry *logrus.Entry) error {
	attrs := make([]any, 0, 2*len(entry.Data))
	for name, value := range entry.Data {
		attrs = append(attrs, name, value)
	}
	h.log.Log(entry.Context, slogLevel(entry.Level), entry.Message, attrs...)
	return nil
}

func slogLevel(level logrus.Level) slog.Level {
	switch level {
	case logrus.TraceLevel, logrus.DebugLevel:
		return slog.LevelDebug
	case logrus.InfoLevel:
		return slog.LevelInfo
	case logrus.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}
