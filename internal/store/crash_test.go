package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// crashChild is the variable that names the directory in which a child of the
// test process submits pods until it is killed.
const crashChild = "PODSTEAD_STORE_CRASH_CHILD"

// submitForEver prints the name of each pod once it is acknowledged.
func submitForEver(dir string) {
	s, _, err := Open(context.Background(), testOptions(dir))
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	uids, err := s.UIDs(context.Background())
	if err != nil {
		fmt.Println("list:", err)
		os.Exit(1)
	}
	for i := len(uids); ; i++ {
		name := fmt.Sprintf("p%d", i)
		if _, err := s.Submit(context.Background(), httpSrc, []pod.Submission{submission(name)}); err != nil {
			fmt.Println("submit:", err)
			os.Exit(1)
		}
		fmt.Println("acknowledged", name)
	}
}

func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range 8 {
		for _, name := range killAfter(t, dir, 5+7*round) {
			acknowledged[name] = true
		}
		o := testOptions(dir)
		if round%2 == 1 {
			// The database is lost as well: what the backup has must open.
			if err := removeDatabase(o.Path); err != nil {
				t.Fatal(err)
			}
		}
		s, report, err := Open(t.Context(), o)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		missing := 0
		for name := range acknowledged {
			if len(uidsOf(t, s, name)) != 1 {
				missing++
				delete(acknowledged, name)
			}
		}
		switch {
		case report.Restored && (report.Pods == 0 || len(report.Lost) > 0):
			t.Errorf("round %d: restored %d pods, lost %v", round, report.Pods, report.Lost)
		case !report.Restored && missing > 0:
			t.Errorf("round %d: %d acknowledged submits are missing", round, missing)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter runs a child, kills it in the middle of its work after so many
// submits, and returns the names that it acknowledged.
func killAfter(t *testing.T, dir string, n int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var names []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "acknowledged ")
		if !ok {
			t.Fatalf("child: %s", lines.Text())
		}
		names = append(names, name)
		if len(names) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return names
}
