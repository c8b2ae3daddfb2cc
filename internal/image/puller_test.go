package image

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nginx   = "docker.io/library/nginx:latest"
	busybox = "docker.io/library/busybox:latest"
)

var (
	oldDigest = digest.FromString("old")
	newDigest = digest.FromString("new")
)

// fakeRuntime holds images and takes pullTime to pull.
type fakeRuntime struct {
	mu       sync.Mutex
	images   map[string]pod.Image
	pullTime time.Duration
	pullErr  error
	pulls    []string
	running  int
	most     int
}

func (f *fakeRuntime) InspectImage(_ context.Context, name string) (pod.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.images[name]
	if !ok {
		return pod.Image{}, &pod.Error{Class: pod.NotFound, Op: "inspect image", Object: name}
	}
	return found, nil
}

// counts gives how many pulls began, how many run, and the most at a time.
func (f *fakeRuntime) counts() (pulls, running, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pulls), f.running, f.most
}

func (f *fakeRuntime) PullImage(ctx context.Context, name string) error {
	f.mu.Lock()
	f.pulls = append(f.pulls, name)
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	var err error
	select {
	case <-time.After(f.pullTime):
		err = f.pullErr
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if err == nil {
		f.images[name] = pod.Image{ID: "new", Digests: []string{"docker.io/library/x@" + newDigest.String()}}
	}
	return err
}

// answers is a Resolver that gives one answer after another, the last for ever.
type answers struct {
	mu    sync.Mutex
	list  []answer
	asked int // read when all calls have returned
}

type answer struct {
	digest digest.Digest
	err    error
	after  time.Duration
}

func (a *answers) Resolve(ctx context.Context, _ string) (digest.Digest, error) {
	a.mu.Lock()
	next := a.list[min(a.asked, len(a.list)-1)]
	a.asked++
	a.mu.Unlock()
	select {
	case <-time.After(next.after):
		return next.digest, next.err
	case <-ctx.Done():
		return "", unavailable("docker.io", "docker.io", ctx.Err())
	}
}

var (
	serves  = answer{digest: newDigest}
	offline = answer{err: unavailable("docker.io", "docker.io", errors.New("connection refused")), after: 5 * time.Second}
	denies  = answer{err: &pod.Error{Class: pod.Invalid, Op: "find", Object: nginx, Err: errors.New("DENIED: access is denied")}}
)

func TestEnsureByPolicy(t *testing.T) {
	pinnedName := "docker.io/library/nginx@" + oldDigest.String()
	broken := &pod.Error{Class: pod.Internal, Op: "pull", Err: errors.New("unexpected EOF")}
	tests := []struct {
		name     string
		image    string
		policy   corev1.PullPolicy
		present  bool
		registry []answer
		pullErr  error

		want    pod.ImageResult // Warning: any
		class   pod.Class
		asked   int
		pulls   int
		says    string // part of the warning or error
		instant bool
	}{
		{name: "Never, present", policy: corev1.PullNever, present: true, want: pod.ImageResult{ID: "old"}, instant: true},
		{name: "Never, absent", policy: corev1.PullNever, class: pod.NotFound, says: "imagePullPolicy is Never", instant: true},
		{name: "IfNotPresent, present", policy: corev1.PullIfNotPresent, present: true, want: pod.ImageResult{ID: "old"}, instant: true},
		{name: "IfNotPresent, absent", policy: corev1.PullIfNotPresent, registry: []answer{serves}, asked: 1, pulls: 1,
			want: pod.ImageResult{ID: "new", Pulled: true, PullTime: time.Second}},
		{name: "IfNotPresent, absent, offline", policy: corev1.PullIfNotPresent, registry: []answer{offline}, asked: 1,
			class: pod.Unavailable, says: "docker.io"},
		{name: "Always, absent", policy: corev1.PullAlways, registry: []answer{serves}, asked: 1, pulls: 1,
			want: pod.ImageResult{ID: "new", Pulled: true, PullTime: time.Second}},
		{name: "Always, present, newer there", policy: corev1.PullAlways, present: true, registry: []answer{serves}, asked: 1, pulls: 1,
			want: pod.ImageResult{ID: "new", Pulled: true, PullTime: time.Second}},
		{name: "Always, present, same there", policy: corev1.PullAlways, present: true, registry: []answer{{digest: oldDigest}}, asked: 1,
			want: pod.ImageResult{ID: "old"}, instant: true},
		{name: "Always, present, offline", policy: corev1.PullAlways, present: true, registry: []answer{offline}, asked: 1,
			want: pod.ImageResult{ID: "old"}, says: "connection refused"},
		{name: "Always, absent, offline", policy: corev1.PullAlways, registry: []answer{offline}, asked: 1,
			class: pod.Unavailable, says: "docker.io"},
		{name: "Always, present, denied", policy: corev1.PullAlways, present: true, registry: []answer{denies}, asked: 1,
			class: pod.Invalid, says: "DENIED", instant: true},
		{name: "Always, absent, denied", policy: corev1.PullAlways, registry: []answer{denies}, asked: 1,
			class: pod.Invalid, says: "DENIED", instant: true},
		{name: "Always, present, pinned", image: pinnedName, policy: corev1.PullAlways, present: true,
			want: pod.ImageResult{ID: "old"}, instant: true},
		{name: "Always, present, registry lost while pulling", policy: corev1.PullAlways, present: true,
			registry: []answer{serves, offline}, pullErr: broken, asked: 2, pulls: 1,
			want: pod.ImageResult{ID: "old"}, says: "connection refused"},
		{name: "Always, present, pull fails but registry is there", policy: corev1.PullAlways, present: true,
			registry: []answer{serves}, pullErr: broken, asked: 2, pulls: 1, class: pod.Unavailable, says: "unexpected EOF"},
		{name: "IfNotPresent, absent, pull fails", policy: corev1.PullIfNotPresent,
			registry: []answer{serves}, pullErr: broken, asked: 1, pulls: 1, class: pod.Unavailable, says: "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				name := test.image
				if name == "" {
					name = nginx
				}
				runtime := &fakeRuntime{images: map[string]pod.Image{}, pullTime: time.Second, pullErr: test.pullErr}
				if test.present {
					runtime.images[name] = pod.Image{ID: "old", Digests: []string{"docker.io/library/nginx@" + oldDigest.String()}}
				}
				registry := &answers{list: test.registry}
				p := New(Config{Runtime: runtime, Resolver: registry, MaxParallelPulls: 1})
				defer p.Close()

				began := time.Now()
				got, err := p.Ensure(t.Context(), name, test.policy)
				took := time.Since(began)

				said := got.Warning
				if err != nil {
					said = err.Error()
				}
				if class := pod.ClassOf(err); class != test.class {
					t.Errorf("class %q, want %q (%v)", class, test.class, err)
				}
				if !strings.Contains(said, test.says) || said != "" && test.says == "" {
					t.Errorf("it says %q, want something with %q", said, test.says)
				}
				got.Warning = ""
				if got != test.want {
					t.Errorf("result %+v, want %+v", got, test.want)
				}
				if pulls, _, _ := runtime.counts(); registry.asked != test.asked || pulls != test.pulls {
					t.Errorf("asked the registry %d times and pulled %d, want %d and %d", registry.asked, pulls, test.asked, test.pulls)
				}
				if test.instant && took != 0 {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestRuntimeOutageIsReported(t *testing.T) {
	down := &pod.Error{Class: pod.Unavailable, Op: "inspect image", Err: errors.New("no socket")}
	p := New(Config{Runtime: brokenRuntime{down}, Resolver: &answers{list: []answer{serves}}})
	defer p.Close()
	for _, policy := range []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever} {
		if _, err := p.Ensure(t.Context(), nginx, policy); !errors.Is(err, down) {
			t.Errorf("%s: %v, want the runtime's error", policy, err)
		}
	}
}

type brokenRuntime struct{ err error }

func (b brokenRuntime) InspectImage(context.Context, string) (pod.Image, error) {
	return pod.Image{}, b.err
}
func (b brokenRuntime) PullImage(context.Context, string) error { return b.err }

// ensure runs Ensure in the background and returns where its outcome comes.
func ensure(ctx context.Context, p *Puller, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.Ensure(ctx, name, corev1.PullAlways)
		done <- err
	}()
	return done
}

func TestCallersShareOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &fakeRuntime{images: map[string]pod.Image{}, pullTime: time.Minute}
		p := New(Config{Runtime: runtime, Resolver: &answers{list: []answer{serves}}, MaxParallelPulls: 2})
		defer p.Close()

		impatient, cancel := context.WithCancel(t.Context())
		first := ensure(impatient, p, nginx)
		synctest.Wait()
		second, third := ensure(t.Context(), p, nginx), ensure(t.Context(), p, nginx)
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
		if err := errors.Join(<-second, <-third); err != nil {
			t.Errorf("the others got %v", err)
		}
		if pulls, _, _ := runtime.counts(); pulls != 1 {
			t.Errorf("pulled %d times", pulls)
		}
	})
}

func TestAnAbandonedPullLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &fakeRuntime{images: map[string]pod.Image{}, pullTime: 10 * time.Minute}
		p := New(Config{Runtime: runtime, Resolver: &answers{list: []answer{serves}}, MaxParallelPulls: 2})
		defer p.Close()
		abandon := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := <-ensure(ctx, p, nginx); pod.ClassOf(err) != pod.Unavailable {
				t.Errorf("the caller that gave up got %v", err)
			}
		}
		abandon()
		time.Sleep(linger - time.Second)
		abandon()
		if pulls, running, _ := runtime.counts(); pulls != 1 || running != 1 {
			t.Errorf("asking again soon: %d pulls, %d running, want the first one to go on", pulls, running)
		}
		time.Sleep(linger)
		synctest.Wait()
		if _, running, _ := runtime.counts(); running != 0 {
			t.Errorf("the pull goes on %s after the last caller left", linger)
		}
		if err := <-ensure(t.Context(), p, nginx); err != nil {
			t.Errorf("asking again late: %v", err)
		}
		if pulls, _, _ := runtime.counts(); pulls != 2 {
			t.Errorf("%d pulls, want a second one", pulls)
		}
	})
}

func TestPullsAreBoundedAndChecksAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		present := pod.Image{ID: "same", Digests: []string{newDigest.String()}}
		runtime := &fakeRuntime{images: map[string]pod.Image{busybox: present}, pullTime: time.Hour}
		p := New(Config{Runtime: runtime, Resolver: &answers{list: []answer{serves}}, MaxParallelPulls: 2})
		defer p.Close()
		var slow []<-chan error
		for _, name := range []string{"a", "b", "c", "d"} {
			slow = append(slow, ensure(t.Context(), p, "example.com/"+name+":1"))
		}
		synctest.Wait()
		began := time.Now()
		if err := <-ensure(t.Context(), p, busybox); err != nil || time.Since(began) != 0 {
			t.Errorf("an up-to-date image took %s behind slow pulls: %v", time.Since(began), err)
		}
		for _, done := range slow {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if _, _, most := runtime.counts(); most != 2 {
			t.Errorf("%d pulls at a time, want 2", most)
		}
	})
}

func TestCloseEndsPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &fakeRuntime{images: map[string]pod.Image{nginx: {ID: "old"}}, pullTime: time.Hour}
		p := New(Config{Runtime: runtime, Resolver: &answers{list: []answer{serves}}, MaxParallelPulls: 1})
		pulling, queued := ensure(t.Context(), p, nginx), ensure(t.Context(), p, busybox)
		synctest.Wait()
		began := time.Now()
		p.Close()
		for _, done := range []<-chan error{pulling, queued, ensure(t.Context(), p, nginx)} {
			if err := <-done; pod.ClassOf(err) != pod.Unavailable {
				t.Errorf("got %v, want class Unavailable", err)
			}
		}
		if time.Since(began) != 0 {
			t.Errorf("closing took %s", time.Since(began))
		}
	})
}
