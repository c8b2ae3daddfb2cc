package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"

	"podstead.io/podstead/internal/config"
)

func TestLibrariesLogHere(t *testing.T) {
	t.Cleanup(func() { slog.SetDefault(slog.New(slog.DiscardHandler)) })
	cfg := config.Default()
	cfg.LogFormat = config.LogJSON
	tests := map[string]struct {
		log   func()
		level string
	}{
		"slog":         {func() { slog.Warn("hello") }, "WARN"},
		"standard":     {func() { log.Print("hello") }, "INFO"},
		"klog":         {func() { klog.ErrorS(errors.New("x"), "hello") }, "ERROR"},
		"logrus":       {func() { logrus.WithField("image", "nginx").Warn("hello") }, "WARN"},
		"logrus error": {func() { logrus.Error("hello") }, "ERROR"},
		"logrus debug": {func() { logrus.Debug("hello") }, ""},
	}
	for name, test := range tests {
		var written bytes.Buffer
		newLogger(cfg, &written)
		test.log()
		if test.level == "" {
			if written.Len() > 0 {
				t.Errorf("%s: logged %s", name, &written)
			}
			continue
		}
		line := struct{ Level, Msg string }{}
		if err := json.Unmarshal(written.Bytes(), &line); err != nil || line.Level != test.level || line.Msg != "hello" {
			t.Errorf("%s: logged %q (%v), want one line of level %s", name, &written, err, test.level)
		}
	}
}

func TestLevel(t *testing.T) {
	t.Cleanup(func() { slog.SetDefault(slog.New(slog.DiscardHandler)) })
	cfg := config.Default()
	cfg.LogLevel = slog.LevelDebug
	var written bytes.Buffer
	newLogger(cfg, &written)
	logrus.Debug("hello")
	if !bytes.Contains(written.Bytes(), []byte("level=DEBUG msg=hello")) {
		t.Errorf("logged %q", &written)
	}
}
