package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// serviceManager tells systemd how the agent does, as sd_notify(3) has it. Without
// systemd all of it does nothing.
type serviceManager struct{ log *slog.Logger }

// ready says that the agent has started, and what `systemctl status` shows of it.
func (m serviceManager) ready(status string) {
	m.tell(daemon.SdNotifyReady + "\nSTATUS=" + status)
}

// stopping says that the agent is about to stop.
func (m serviceManager) stopping() { m.tell(daemon.SdNotifyStopping) }

func (m serviceManager) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("systemd can't be told of the agent's state", "error", err)
	}
}

// watchdog pings systemd twice in each period of WatchdogSec= while alive finds
// nothing wrong, until the context ends; it returns at once where no watchdog is
// set. An agent that hangs misses its pings, and systemd starts it again.
//
// alive gets a context that ends before the ping is due: one that doesn't answer
// by then is not alive.
func (m serviceManager) watchdog(ctx context.Context, alive func(context.Context) error) error {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read WATCHDOG_USEC: %w", err)
	}
	if period == 0 {
		return nil
	}
	m.log.Debug("systemd's watchdog is on", "period", period)
	ticker := time.NewTicker(period / 2)
	defer ticker.Stop()
	wasAlive := true
	for {
		checking, cancel := context.WithTimeout(ctx, period/2)
		err := alive(checking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			m.tell(daemon.SdNotifyWatchdog)
		} else if wasAlive {
			m.log.Error("the agent is stuck: systemd will start it again unless it recovers", "error", err)
		}
		wasAlive = err == nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
