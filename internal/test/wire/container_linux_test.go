package wire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestS16FirstProcess runs the daemon as the first process of a container: supervisors are its children there, as all
// orphans are. It leaves no zombie, and ends its servers in order, because the system would kill them.
func TestS16FirstProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount the process table of a namespace")
	}
	unshare := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skip("no process namespaces here: ", err)
	}
	g := rig.New(t)
	mcpx := g.Binary
	g.Binary = filepath.Join(g.Home, "container")
	script := fmt.Sprintf("#!/bin/sh\nexec unshare %s %s \"$@\"\n", strings.Join(unshare, " "), mcpx)
	if err := os.WriteFile(g.Binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	g.Binary = mcpx
	g.Add("one", rig.Fixture(t, fakemcp.Options{}))
	c := rig.Open(t, g.URL("one"), "2025-06-18", "{}")
	first := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))

	inits := childrenOf(g.PID())
	if len(inits) != 1 {
		t.Fatalf("unshare has the children %v, want the daemon", inits)
	}
	daemon := inits[0]
	var supervisors []int
	for _, pid := range childrenOf(daemon) {
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), "supervise") {
			supervisors = append(supervisors, pid)
		}
	}
	if len(supervisors) != 1 {
		t.Fatalf("the daemon has the children %v, want one supervisor among them", childrenOf(daemon))
	}
	kill(t, supervisors[0])
	rig.Until(t, slack, "nothing is left of the killed supervisor, not even a zombie", func() bool { return len(childrenOf(daemon)) == 0 })
	if second := number(t, definite(t, c, tool("2", "pid", `{}`), slack, "answer")); second == first {
		t.Errorf("pid %d answers, which is dead", first)
	}
	if err := syscall.Kill(daemon, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if how := g.Wait(); how != "" {
		t.Errorf("the daemon ended with %s", how)
	}
	if left := bundles(t, g); len(left) > 0 {
		t.Errorf("servers were not ended in order: %v", left)
	}
}

// childrenOf are the processes whose parent is pid, zombies included.
func childrenOf(pid int) (children []int) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // a constant pattern
	}
	for _, e := range entries {
		n, err := strconv.Atoi(filepath.Base(e))
		if err == nil && rig.Look(n).Parent == pid {
			children = append(children, n)
		}
	}
	return children
}
