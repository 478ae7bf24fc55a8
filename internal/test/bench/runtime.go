package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// The scenarios of the runtime. Each is a tool at /mcp, over HTTP, against the program that somebody would run instead.
const (
	scenarioSearch  = "search"
	scenarioRead    = "read"
	scenarioCommand = "command"
	scenarioJobs    = "jobs"
)

// agent is a client of the tools at /mcp that has a session on a project.
type agent struct {
	http    *httpCaller
	dir     string // of the project
	session string
}

// allowed lets the commands of the bench run without a person.
const allowed = `[commands]
contained = "allow"

[[commands.rule]]
id = "bench-true"
decision = "allow"
program = "true"

[[commands.rule]]
id = "bench-sleep"
decision = "allow"
program = "sleep"
`

// agent starts a daemon whose commands are kept in by a mechanism, registers dir, and opens a session.
func (b *bench) agent(ctx context.Context, name, dir, mechanism string) (*agent, func(), error) {
	config := filepath.Join(b.dir, name, "config")
	if err := errors.Join(os.MkdirAll(config, 0o700), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "policy.toml"), []byte(allowed), 0o600); err != nil {
		return nil, nil, err
	}
	g, err := b.gateway(ctx, name, "MCPX_RUNTIME_COMMANDS=true", "MCPX_RUNTIME_WORK=true", "MCPX_SANDBOX_MECHANISM="+mechanism)
	if err != nil {
		return nil, nil, err
	}
	if err := g.cli(ctx, nil, "project", "add", dir); err != nil {
		return nil, nil, err
	}
	a := &agent{dir: dir}
	if a.http, err = dialHTTP(g.addr, "/mcp", true); err != nil {
		return nil, nil, err
	}
	var opened struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	err = a.tool("session", map[string]any{"action": "open", "project": filepath.Base(dir)}, &opened)
	a.session = opened.Session.ID
	return a, func() { a.http.close(); g.stop() }, err
}

// tool calls a tool, and decodes the data of its answer.
func (a *agent) tool(name string, args map[string]any, data any) error {
	_, err := a.handled(name, args, data)
	return err
}

// handled is tool for one that answers with the handle of a workspace.
func (a *agent) handled(name string, args map[string]any, data any) (handle string, err error) {
	args["operation_id"] = "bench-" + strconv.FormatInt(ids.Add(1), 10) + "-0000"
	if a.session != "" {
		args["remote_session_id"] = a.session
	}
	if readsOnly[name] {
		delete(args, "operation_id")
	}
	params, err := json.Marshal(map[string]any{"name": name, "arguments": args})
	if err != nil {
		return "", err
	}
	for { // the same call again waits for what is under way
		handle, err := a.call(name, params, data)
		if !errors.Is(err, errUnderWay) {
			return handle, err
		}
	}
}

// errUnderWay says that a call has not ended in the time in which it is answered.
var errUnderWay = errors.New("the call is under way")

func (a *agent) call(name string, params []byte, data any) (handle string, err error) {
	raw, _, err := a.http.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, ids.Add(1), params))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var m struct {
		Result struct {
			Answer struct {
				OK     bool            `json:"ok"`
				Status string          `json:"status"`
				Handle string          `json:"handle"`
				Data   json.RawMessage `json:"data"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	err = json.Unmarshal(raw, &m)
	if err == nil && m.Result.Answer.Status == "in_progress" && name != "execute_command" {
		return "", errUnderWay
	}
	if err != nil || !m.Result.Answer.OK {
		return "", fmt.Errorf("%s: %w: %.500s", name, errors.Join(errNotOK, err), raw)
	}
	return m.Result.Answer.Handle, json.Unmarshal(m.Result.Answer.Data, data)
}

var (
	errNotOK  = errors.New("the call did not do what it should")
	readsOnly = map[string]bool{"search_files": true, "read_file": true, "command_status": true}
)

// output runs a program in the project, and gives what it printed. Codes are those that are no failure.
func (a *agent) output(ctx context.Context, codes []int, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = a.dir
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		for _, c := range codes {
			if e.ExitCode() == c {
				err = nil
			}
		}
	}
	return out, err
}

// The tree that is searched.
const (
	treeFiles = 100_000
	perDir    = 100
	fileSize  = 1500
	needles   = 10
)

// plant makes a tree of n small files, of which some have a line that is looked for.
func plant(dir string, n int) error {
	line := "the quick brown fox jumps over the lazy dog, and nobody looks for it here\n"
	body := strings.Repeat(line, fileSize/len(line))
	for i := range n {
		in := filepath.Join(dir, fmt.Sprintf("d%03d", i/perDir))
		if i%perDir == 0 {
			if err := os.MkdirAll(in, 0o700); err != nil {
				return err
			}
		}
		text := body
		if i%(n/needles) == n/needles/2 {
			text += "a needle_in_here, once\n"
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%02d.txt", i%perDir)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// search measures search_files against ripgrep on the same tree.
func (b *bench) search(ctx context.Context, r *report) error {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.say("skip: search: ripgrep is not installed (rg; the Debian package is ripgrep)")
		return nil
	}
	files := treeFiles
	if b.o.quick {
		files /= 20
	}
	dir := filepath.Join(b.dir, "forest")
	b.say("a tree of %d files", files)
	if err := plant(dir, files); err != nil {
		return err
	}
	a, stop, err := b.agent(ctx, "search", dir, "none")
	if err != nil {
		return err
	}
	defer stop()
	for _, one := range []struct {
		name, mode, query string
		flags             []string
		hits              int
	}{
		{"literal", "literal", "needle_in", []string{"-F"}, needles},
		{"regex", "regex", `ne+dle_[a-z]+_h`, nil, needles},
		{"no hit", "literal", "nobody_wrote_this", []string{"-F"}, 0},
	} {
		ours := func(context.Context) error {
			hits := 0
			for cursor := ""; ; {
				var page struct {
					Files []json.RawMessage `json:"files"`
					Next  string            `json:"next_cursor"`
				}
				args := map[string]any{"query": one.query, "mode": one.mode}
				if cursor != "" {
					args["cursor"] = cursor
				}
				if err := a.tool("search_files", args, &page); err != nil {
					return err
				}
				if hits += len(page.Files); page.Next == "" {
					break
				}
				cursor = page.Next
			}
			return same("files with hits", hits, one.hits)
		}
		theirs := func(ctx context.Context) error {
			out, err := a.output(ctx, []int{1}, append(append([]string{rg, "-n"}, one.flags...), "--", one.query, ".")...)
			if err != nil {
				return err
			}
			return same("lines of ripgrep", bytes.Count(out, []byte("\n")), one.hits)
		}
		if err := b.pair(ctx, r, scenarioSearch, 1, fmt.Sprintf("search_files, %s, %d files", one.name, files), "rg", ours, theirs); err != nil {
			return err
		}
	}
	return nil
}

func same(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

// read measures read_file against cat, both for the same bytes.
func (b *bench) read(ctx context.Context, r *report) error {
	text := strings.Repeat("a line of a file that somebody reads\n", 300)
	a, stop, err := b.agent(ctx, "read", filepath.Join(b.dir, "library"), "none")
	if err != nil {
		return err
	}
	defer stop()
	d, err := newDesk(ctx, b.dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.close() }() // nothing of it is kept
	if err := d.open(ctx); err != nil {
		return err
	}
	for _, dir := range []string{a.dir, d.dir} {
		if err := os.WriteFile(filepath.Join(dir, "book.txt"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	var page struct {
		Text string `json:"text"`
	}
	args := func() map[string]any { return map[string]any{"path": "book.txt"} }
	cat := func(ctx context.Context) error {
		out, err := a.output(ctx, nil, "cat", "book.txt")
		return errors.Join(err, same("bytes of cat", len(out), len(text)))
	}
	inside := func(ctx context.Context) error {
		with := args()
		with["remote_session_id"] = d.session
		raw, err := d.read(ctx, "read_file", with)
		if err == nil {
			err = json.Unmarshal(raw, &page)
		}
		return errors.Join(err, same("bytes", len(page.Text), len(text)))
	}
	over := func(context.Context) error {
		err := a.tool("read_file", args(), &page)
		return errors.Join(err, same("bytes", len(page.Text), len(text)))
	}
	return errors.Join(
		b.pair(ctx, r, scenarioRead, 1, fmt.Sprintf("read_file of %d bytes, in process", len(text)), "cat", inside, cat),
		b.pair(ctx, r, scenarioRead, 1, fmt.Sprintf("read_file of %d bytes, over HTTP", len(text)), "cat", over, cat),
	)
}

// ended is what is read of a job.
type ended struct {
	ID    string `json:"job_id"`
	State string `json:"state"`
	Code  *int   `json:"exit_code"`
}

func (e ended) well() error {
	if e.State != "exited" || e.Code == nil || *e.Code != 0 {
		return fmt.Errorf("the command is %s", e.State)
	}
	return nil
}

// commands measures one command through the runtime against the shell that runs it alone.
func (b *bench) commands(ctx context.Context, r *report) error {
	for _, mechanism := range []string{"none", "bwrap"} {
		if _, err := exec.LookPath(mechanism); mechanism != "none" && err != nil {
			b.say("skip: commands in %s: it is not installed", mechanism)
			continue
		}
		a, stop, err := b.agent(ctx, "command-"+mechanism, filepath.Join(b.dir, "yard-"+mechanism), mechanism)
		if err != nil {
			return err
		}
		ours := func(context.Context) error {
			var job ended
			return errors.Join(a.tool("execute_command", map[string]any{"shell": "true"}, &job), job.well())
		}
		if err := ours(ctx); err != nil && strings.Contains(err.Error(), "SANDBOX_UNAVAILABLE") {
			b.say("skip: commands in %s: it does not work here", mechanism)
			stop()
			continue
		}
		err = b.pair(ctx, r, scenarioCommand, 1, "execute_command true, sandbox "+mechanism, "sh -c", ours, func(ctx context.Context) error {
			_, err := a.output(ctx, nil, "sh", "-c", "true")
			return err
		})
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce is how many commands of one project run at once; the others wait (operation.UsualJobs).
const atOnce = 8

// jobs measures many commands that are started together against as many shells, of which as many run at once.
func (b *bench) jobs(ctx context.Context, r *report) error {
	n := 100
	if b.o.quick {
		n /= 5
	}
	a, stop, err := b.agent(ctx, "jobs", filepath.Join(b.dir, "plant"), "none")
	if err != nil {
		return err
	}
	defer stop()
	// No two commands are the same: a second one would be asked whether it is meant.
	command := func() string { return fmt.Sprintf("sleep 0.1%07d", ids.Add(1)) }
	ours := func(context.Context) error {
		var started []string
		for range n {
			var job ended
			if err := a.tool("start_command", map[string]any{"shell": command()}, &job); err != nil {
				return err
			}
			started = append(started, job.ID)
		}
		for _, id := range started {
			var job ended
			for job.State != "exited" {
				if err := a.tool("command_status", map[string]any{"job_id": id, "wait_ms": 20000}, &job); err != nil {
					return err
				}
			}
			if err := job.well(); err != nil {
				return err
			}
		}
		return nil
	}
	theirs := func(ctx context.Context) error {
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		var all sync.WaitGroup
		places := make(chan struct{}, atOnce)
		for range n {
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				if _, err := a.output(ctx, nil, "sh", "-c", command()); err != nil {
					fail(err)
				}
			})
		}
		all.Wait()
		return context.Cause(ctx)
	}
	return b.pair(ctx, r, scenarioJobs, 1, fmt.Sprintf("%d jobs of 0.1 s, %d at once", n, atOnce), "sh -c, all of them", ours, theirs)
}
