package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestOOMKillsAreTakenFromTheKernelsWords(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	other := strings.Repeat("fedcba9876543210", 4)
	for name, record := range map[string]string{
		"cgroup v1":          "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/libpod_parent/p/libpod-" + id + ",task_memcg=/libpod_parent/p/libpod-" + id + ",task=sh,pid=7,uid=0",
		"cgroup v2, systemd": "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/machine.slice,task_memcg=/machine.slice/libpod-" + id + ".scope/container,task=sh,pid=7,uid=0",
		"whole machine":      "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=libpod-" + other + ",mems_allowed=0,global_oom,task_memcg=/machine.slice/libpod-" + id + ".scope,task=sh,pid=7,uid=0",
	} {
		t.Run(name, func(t *testing.T) {
			var o OOMKills
			o.note([]byte(record))
			if !o.Killed(id) || o.Killed(other) {
				t.Errorf("killed %v; the other %v", o.Killed(id), o.Killed(other))
			}
		})
	}
	var o OOMKills
	o.note([]byte("6,1,2,-;libpod-" + id + ": a message about something else"))
	o.note([]byte("6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/user.slice,task=sh,pid=7,uid=0"))
	if o.Killed(id) {
		t.Error("a record about something else counts")
	}
}

func TestOOMKillsAreForgottenAtTheBound(t *testing.T) {
	o := OOMKills{killed: map[string]struct{}{}}
	for i := range maxKills {
		o.killed[strings.Repeat("x", i)] = struct{}{}
	}
	id := strings.Repeat("a", 64)
	o.note([]byte("oom-kill:task_memcg=/libpod-" + id))
	if len(o.killed) != 1 || !o.Killed(id) {
		t.Errorf("%d remembered", len(o.killed))
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var o OOMKills
	if err := o.Follow(ctx); err != nil {
		t.Fatal(err)
	}
}
