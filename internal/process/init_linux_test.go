package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/process"
)

// asInit is what the first process of a container does in TestReapAsInit. Its output is what went wrong.
func asInit() int {
	stop := process.ReapAsInit()
	defer stop()
	if !process.IsInit() {
		fmt.Println("not the first process")
	}
	// Many children of our own, each with an orphan that ends at about the same time.
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			c, err := process.Start(process.Command{
				File: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("(sleep 0.05 </dev/null >/dev/null 2>&1 &); (exit 9 &); exit %d", n)}, Dir: "/",
				Env: []string{"PATH=/usr/bin:/bin"},
			})
			if err != nil {
				fmt.Println(err)
				return
			}
			<-c.Done()
			if got := c.Status(); got != (process.Status{Code: n}) {
				fmt.Printf("child %d ended with %v\n", n, got)
			}
			_, _, _ = c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close()
		})
	}
	all.Wait()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := others()
		if len(left) == 0 {
			return 0
		}
		if time.Now().After(limit) {
			fmt.Println("left:", left)
			return 1
		}
	}
}

// others are the processes of this container beside us, zombies included.
func others() (left []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if b, err := os.ReadFile(path); err == nil && !strings.HasPrefix(string(b), "1 ") {
			left = append(left, string(b))
		}
	}
	return left
}

// TestReapAsInit runs this binary as the first process of a container.
func TestReapAsInit(t *testing.T) {
	unshare := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skip("no process namespaces here: ", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", append(unshare, exe, "as-init")...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	stop := process.ReapAsInit() // not the first process: it does nothing
	stop()
}
