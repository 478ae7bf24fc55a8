package wire

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/test/rig"
)

// producerScript makes out/a, says that it is there, and ends when it is told to, with what its argument names still going on.
const producerScript = `#!/bin/sh
set -e
mkdir -p out
head -c 65536 /dev/zero | tr '\0' 'o' > out/a
head -c 65536 /dev/zero | tr '\0' 't' > out/b
writes='while [ ! -e stop ]; do echo late >> out/a; sleep 0.01; done'
renames='while [ ! -e stop ]; do sleep 0.2; cp out/b late; mv late out/a; done'
case "$1" in
background) setsid sh -c "$writes" > /dev/null 2>&1 & ;;
daemon) (setsid sh -c "$writes" > /dev/null 2>&1 &) & wait ;;
rename) (setsid sh -c "$renames" > /dev/null 2>&1 &) & wait ;;
esac
: > made
while [ ! -e go ]; do sleep 0.01; done
`

// consumerScript says in a directory that it runs, and ends well when it is told to there.
const consumerScript = `#!/bin/sh
: > "$1/begun"
while [ ! -e "$1/go" ]; do sleep 0.01; done
`

// maker is an agent that makes builds.
type maker struct {
	*agent
	bin, handle, copy string
	ops               int
}

type candidate struct {
	Candidate string `json:"candidate_id"`
	Build     string `json:"build_id"`
	State     string `json:"state"`
	Why       string `json:"why"`
	Path      string `json:"path"`
	Audits    []struct {
		ID      string `json:"audit_id"`
		State   string `json:"state"`
		Why     string `json:"why"`
		Verdict string `json:"verdict"`
	} `json:"audits"`
}

// newMaker is an agent whose producer and consumer run without a person.
func newMaker(t *testing.T) *maker {
	t.Helper()
	g := rig.New(t)
	m := &maker{bin: t.TempDir()}
	var policy strings.Builder
	policy.WriteString("[commands]\nlift = [\"program.untrusted\"]\n") // they lie where the agent could write
	for name, script := range map[string]string{"produce": producerScript, "consume": consumerScript} {
		path := filepath.Join(m.bin, name)
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&policy, "[[commands.rule]]\nid = %q\ndecision = \"allow\"\nprogram = %q\noperands = \"any\"\n", name, path)
	}
	if err := os.MkdirAll(filepath.Join(g.Home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), []byte(policy.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Extra = []string{"MCPX_RUNTIME_COMMANDS=true", "MCPX_RUNTIME_WORK=true", "MCPX_RUNTIME_VERIFIED=true", "MCPX_SANDBOX_MECHANISM=none"}
	g.Serve()
	m.agent = openAgent(t, g)
	m.open()
	return m
}

// open makes a workspace of its own for the next build.
func (m *maker) open() {
	m.t.Helper()
	var made struct {
		Path string `json:"path"`
	}
	m.ops++
	args := fmt.Sprintf(`{"remote_session_id":%q,"purpose":"build %d","mutable":["."],"on_overlap":"allow","operation_id":"create-%03d"}`, m.session, m.ops, m.ops)
	m.read("create_agent_workspace", args, &made)
	m.copy, m.handle = made.Path, m.call("create_agent_workspace", args).Handle
}

func (m *maker) file(name string) string { return filepath.Join(m.copy, name) }

// touch makes an empty file, once.
func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// produces starts the producer, and calls meanwhile when its outputs are there. It gives what becomes of the candidate.
func (m *maker) produces(what string, meanwhile func()) candidate {
	m.t.Helper()
	m.ops++
	var started candidate
	m.read("start_verified_workspace_producer", fmt.Sprintf(`{"handle":%q,"argv":[%q,%q],"outputs":["out"],"operation_id":"produce-%03d"}`,
		m.handle, filepath.Join(m.bin, "produce"), what, m.ops), &started)
	appears(m.t, m.file("made"))
	meanwhile()
	touch(m.t, m.file("go"))
	return m.becomes(started.Candidate, func(c candidate) bool { return c.State == "ready" || c.State == "rejected" })
}

// becomes waits until a generation is as it shall be.
func (m *maker) becomes(id string, ok func(candidate) bool) (c candidate) {
	m.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		a := m.call("generation_status", fmt.Sprintf(`{"build_id":%q,"wait_ms":2000}`, id)) // of one that was rejected it is no success
		c = candidate{}
		if err := json.Unmarshal(a.Data, &c); err != nil {
			m.t.Fatalf("%s: %v", a.raw, err)
		}
		if ok(c) {
			return c
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("it stays %+v", c)
		}
	}
}

// stands fails unless a build is what it was, by its own word and by ours.
func (m *maker) stands(c candidate, was [sha256.Size]byte) {
	m.t.Helper()
	if a := m.call("verify_generation", fmt.Sprintf(`{"build_id":%q}`, c.Build)); !a.OK {
		m.t.Errorf("a build that is ready does not verify: %s", a.raw)
	}
	if now := m.sum(c); now != was {
		m.t.Error("the bytes of a build that is ready have moved")
	}
}

func (m *maker) sum(c candidate) [sha256.Size]byte {
	m.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Path, "tree", "out", "a"))
	if err != nil {
		m.t.Fatal(err)
	}
	return sha256.Sum256(raw)
}

// TestProducersThatHold: what a producer or somebody else can still write to is never the bytes of a build. Whoever keeps a descriptor or
// a map of an output open, or renames something over it, changes the workspace and not the build: it is ready and stays as it is, or
// it was rejected because it moved. One that leaves a process behind, in the background or as a daemon, is rejected.
func TestProducersThatHold(t *testing.T) {
	m := newMaker(t)
	holders := map[string]func() (write func(byte) error, end func() error){
		"a descriptor": func() (func(byte) error, func() error) {
			f, err := os.OpenFile(m.file("out/a"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			return func(b byte) error {
				_, err := f.WriteAt([]byte{b}, int64(b)*256)
				return err
			}, f.Close
		},
		"a map": func() (func(byte) error, func() error) {
			f, err := os.OpenFile(m.file("out/a"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mapped, err := unix.Mmap(int(f.Fd()), 0, 65536, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			return func(b byte) error {
				mapped[int(b)*256] = b
				return nil
			}, func() error { return unix.Munmap(mapped) }
		},
		"a rename": func() (func(byte) error, func() error) {
			return func(b byte) error {
				late := m.file(fmt.Sprintf("late-%d", b))
				if err := os.WriteFile(late, slices.Repeat([]byte{b}, 65536), 0o600); err != nil {
					return err
				}
				return os.Rename(late, m.file("out/a"))
			}, func() error { return nil }
		},
	}
	for name, hold := range holders {
		t.Run(name+" afterwards", func(t *testing.T) {
			m.t = t
			m.open()
			var write func(byte) error
			var end func() error
			c := m.produces("", func() { write, end = hold() })
			if c.State != "ready" {
				t.Fatalf("it is %s: %s", c.State, c.Why)
			}
			was := m.sum(c)
			before, err := os.ReadFile(m.file("out/a"))
			if err != nil {
				t.Fatal(err)
			}
			for b := range byte(200) {
				if err := write(b); err != nil {
					t.Fatal(err)
				}
			}
			if after, err := os.ReadFile(m.file("out/a")); err != nil || string(after) == string(before) {
				t.Fatalf("what was held open wrote nothing: %v", err)
			}
			m.stands(c, was)
			if err := end(); err != nil {
				t.Error(err)
			}
		})
		t.Run(name+" all the time", func(t *testing.T) {
			m.t = t
			m.open()
			stop := make(chan struct{})
			var writer sync.WaitGroup
			defer writer.Wait()
			defer close(stop)
			c := m.produces("", func() {
				write, end := hold()
				writer.Go(func() {
					for b := byte(0); ; b = (b + 1) % 200 {
						select {
						case <-stop:
							if err := end(); err != nil {
								t.Error(err)
							}
							return
						default:
						}
						if err := write(b); err != nil {
							t.Error(err)
						}
					}
				})
			})
			switch {
			case c.State == "ready":
				was := m.sum(c)
				for range 3 {
					m.stands(c, was)
				}
			case c.Why != "moving":
				t.Errorf("it is rejected: %s", c.Why)
			}
			t.Logf("it is %s %s", c.State, c.Why)
		})
	}
	for _, left := range []string{"background", "daemon", "rename"} {
		t.Run("leaves a "+left, func(t *testing.T) {
			m.t = t
			m.open()
			c := m.produces(left, func() {})
			if c.State != "rejected" || c.Why != "PRODUCER_STILL_WRITING" || c.Build != "" {
				t.Errorf("it is %s: %s", c.State, c.Why)
			}
			touch(t, m.file("stop"))
		})
	}
}

// TestChangedUnderAConsumer: one bit of a build that changes while a consumer runs makes its audit invalid, whatever its exit code
// is, and nobody is let at the build any more; one that changed before is found before a consumer runs.
func TestChangedUnderAConsumer(t *testing.T) {
	m := newMaker(t)
	flip := func(c candidate) {
		path := filepath.Join(c.Path, "tree", "out", "a")
		raw, err := os.ReadFile(path)
		if err == nil {
			raw[len(raw)/2] ^= 1
			err = os.Chmod(path, 0o600)
		}
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err == nil {
			err = os.Chmod(path, 0o444)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	consume := func(c candidate, dir string) answered {
		m.ops++
		return m.call("start_verified_workspace_consumer", fmt.Sprintf(`{"build_id":%q,"argv":[%q,%q],"remote_session_id":%q,"operation_id":"consume-%03d"}`,
			c.Build, filepath.Join(m.bin, "consume"), dir, m.session, m.ops))
	}
	c := m.produces("", func() {})
	dir := t.TempDir()
	if a := consume(c, dir); !a.OK {
		t.Fatalf("%s", a.raw)
	}
	appears(t, filepath.Join(dir, "begun"))
	flip(c)
	touch(t, filepath.Join(dir, "go"))
	after := m.becomes(c.Build, func(c candidate) bool {
		return len(c.Audits) == 1 && c.Audits[0].State != "running" && c.Audits[0].State != "bound" && c.Audits[0].State != "pre_verified"
	})
	if a := after.Audits[0]; a.State != "invalid" || a.Verdict != "" || a.Why == "" || after.State != "corrupt" {
		t.Errorf("the audit is %+v, the build %s", a, after.State)
	}
	if a := consume(c, t.TempDir()); a.OK || a.Error.Code != "BUILD_CORRUPT" {
		t.Errorf("the next consumer: %s", a.raw)
	}
	m.open()
	other := m.produces("", func() {})
	flip(other)
	if a := consume(other, t.TempDir()); a.OK || a.Error.Code != "BUILD_CORRUPT" {
		t.Errorf("a consumer of a build that has changed: %s", a.raw)
	}
}
