package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// freePort is a TCP port on which nothing listens.
func freePort(t *testing.T) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// fetch is the page at an address.
func fetch(address string) (string, error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func answersAt(t *testing.T, address string) {
	t.Helper()
	eventually(t, "nginx answers at "+address, func() error {
		page, err := fetch(address)
		if err != nil {
			return err
		}
		return unless(strings.Contains(page, "Welcome to nginx!"), "it answers %q", page)
	})
}

// nginx is the real one, as the seed asks for it: its policy is Always, and no
// registry answers.
func nginx(ports ...corev1.ContainerPort) corev1.Container {
	return corev1.Container{Name: "nginx", Image: "nginx", Ports: ports}
}

// TestPorts reaches a pod at its own address and through the host's. The old pod
// lets go of its ports before the new one takes them (kubernetes#112814,
// kubernetes#88402).
func TestPorts(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	all, local, moved := freePort(t), freePort(t), freePort(t)
	web := newPod("web", nginx(
		corev1.ContainerPort{ContainerPort: 80, HostPort: all},
		corev1.ContainerPort{ContainerPort: 80, HostPort: local, HostIP: "127.0.0.1"},
	), sleeper("side"))
	a.drop(t, web)
	was := a.awaitRunning(t, static("web"), "nginx", "side")
	status := a.mustPod(t, static("web")).Status
	answersAt(t, status.PodIP+":80")
	answersAt(t, fmt.Sprintf("127.0.0.1:%d", all))
	answersAt(t, fmt.Sprintf("%s:%d", status.HostIP, all))
	answersAt(t, fmt.Sprintf("127.0.0.1:%d", local))
	if page, err := fetch(fmt.Sprintf("%s:%d", status.HostIP, local)); err == nil {
		t.Errorf("a port of 127.0.0.1 alone answers at %s: %q", status.HostIP, page)
	}

	// An edit of the other container leaves the ports alone.
	web.Spec.Containers[1] = with(web.Spec.Containers[1], "N", "1")
	a.drop(t, web)
	same(t, was, a.awaitGeneration(t, static("web"), 2), "POD", "nginx")
	answersAt(t, fmt.Sprintf("127.0.0.1:%d", all))

	// Another port is another pod: the old one must have let go of its ports.
	web.Spec.Containers[0].Ports[0].HostPort = moved
	a.drop(t, web)
	is := a.awaitGeneration(t, static("web"), 3)
	replaced(t, was, is, "POD", "nginx")
	answersAt(t, fmt.Sprintf("127.0.0.1:%d", moved))
	if page, err := fetch(fmt.Sprintf("127.0.0.1:%d", all)); err == nil {
		t.Errorf("the old port answers %q", page)
	}

	// Two pods can't have one port. The second says so, and has it when the first
	// is gone.
	a.drop(t, newPod("rival", nginx(corev1.ContainerPort{ContainerPort: 80, HostPort: moved})))
	a.awaitEvent(t, static("rival"), corev1.EventTypeWarning, "FailedCreatePodSandBox", "")
	same(t, is, a.live(t, static("web")))
	a.remove(t, "web.yaml")
	a.awaitGone(t, static("web"))
	a.awaitRunning(t, static("rival"), "nginx")
	answersAt(t, fmt.Sprintf("127.0.0.1:%d", moved))
}
