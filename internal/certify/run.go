package certify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/process"
)

const (
	// agentWithin bounds one run of an agent: the slowest needs two minutes on a very busy machine.
	agentWithin = 5 * time.Minute
	// maxOutput bounds what is kept of one run's output.
	maxOutput = 1 << 20
	// shownOutput is how much of it an error quotes.
	shownOutput = 1500
)

// task is what the agents are told. The stub does not read it.
const task = "call echo"

// word begins what the tool has to say back; the number of the call ends it.
const word = "hello-certify-"

// output is what one run of a program printed.
type output struct {
	text   string // stdout and stderr as they came, without colours
	stdout string
	code   int
}

var colours = lazyregexp.New(`\x1b\[[0-9;?]*[A-Za-z]`)

// run runs one program to its end, with nothing on stdin, and ends whatever it leaves behind.
func run(ctx context.Context, dir string, environ, argv []string) (output, error) {
	ctx, stop := context.WithTimeout(ctx, agentWithin)
	defer stop()
	file, err := process.Resolve(argv[0], dir, environ)
	if err != nil {
		return output{}, err
	}
	child, err := process.Start(process.Command{File: file, Argv: argv, Dir: dir, Env: environ})
	if err != nil {
		return output{}, err
	}
	_ = child.Stdin.Close() // nothing is said to it
	var text, answer bounded
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.MultiWriter(&text, &answer), child.Stdout) }) // both end when the pipes are closed below
	reading.Go(func() { _, _ = io.Copy(&text, child.Stderr) })
	end := context.AfterFunc(ctx, func() { child.EndGroup(0) })
	<-child.Done()
	end()
	child.EndGroup(0) // some leave a process in the background
	process.KillOrphans(child.ID)
	settled := make(chan struct{})
	go func() { reading.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-time.After(time.Second): // a stranger holds the pipe: what came is enough
	}
	_, _ = child.Stdout.Close(), child.Stderr.Close()
	<-settled
	out := output{text: colours().ReplaceAllString(text.String(), ""), stdout: answer.String(), code: child.Status().Code}
	if ctx.Err() != nil {
		return out, fault.New(fault.Unavailable, "certify-timeout").Saying("%s did not end in time: %s", argv[0], tail(out.text)).Because(context.Cause(ctx))
	}
	return out, nil
}

// bounded keeps the first maxOutput bytes.
type bounded struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := maxOutput - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func tail(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-shownOutput):]
}

// agent is one agent in its scratch home.
type agent struct {
	recipe
	place
	project string
	environ []string
	record  *transcript
}

func (a agent) exec(ctx context.Context, args []string) (output, error) {
	argv := append([]string{a.program}, args...)
	out, err := run(ctx, a.project, a.environ, argv)
	a.record.add(argv, out)
	return out, err
}

// prepare writes the settings for the stub, and lets the agent add the servers by itself.
func (a agent) prepare(ctx context.Context, servers []Server) error {
	var files []file
	if a.before != nil {
		files = a.before(a.place)
	}
	if a.write != nil {
		files = append(files, file{a.config, a.write(a.place, servers)})
	}
	for _, f := range files {
		path := filepath.Join(a.home, f.path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(f.content), 0o600)); err != nil {
			return err
		}
	}
	if a.login != nil {
		if _, err := a.succeed(ctx, a.login(a.place)); err != nil {
			return err
		}
	}
	if a.add == nil {
		return nil
	}
	for _, s := range servers {
		if _, err := a.succeed(ctx, a.add(s)); err != nil {
			return err
		}
	}
	return nil
}

func (a agent) succeed(ctx context.Context, args []string) (output, error) {
	out, err := a.exec(ctx, args)
	if err == nil && out.code != 0 {
		err = fault.New(fault.Unavailable, "certify-agent-failed").Saying("`%s %s` ended with %d: %s", a.program, strings.Join(args, " "), out.code, tail(out.text))
	}
	return out, err
}

// version is what the agent says about itself.
func (a agent) version(ctx context.Context) (string, error) {
	out, err := a.succeed(ctx, []string{"--version"})
	line, _, _ := strings.Cut(strings.TrimSpace(out.stdout), "\n")
	return line, err
}

// connects asks the agent whether it reaches the servers; an agent without such a command is not asked.
func (a agent) connects(ctx context.Context, servers []Server) (asked bool, err error) {
	if a.status == nil {
		return false, nil
	}
	out, err := a.exec(ctx, a.status)
	if err != nil {
		return true, err
	}
	for _, s := range servers {
		if !a.connected(s.Name).MatchString(out.text) {
			return true, fault.New(fault.Unavailable, "certify-not-connected").Saying("%s does not say that %q is connected: %s", a.program, s.Name, tail(out.text))
		}
	}
	return true, nil
}

// plan lets the stub call echo on each server, and that so many times.
func (a agent) plan(servers []Server, rounds int) []Call {
	var calls []Call
	if a.search != nil {
		calls = append(calls, a.search())
	}
	for range rounds {
		for _, s := range servers {
			name := regexp.MustCompile(regexp.QuoteMeta(s.Name) + `[^a-z]+echo$`)
			switch {
			case a.bare && s.URL != "":
				name = regexp.MustCompile("^" + SecondEcho + "$")
			case a.bare:
				name = regexp.MustCompile("^echo$")
			}
			calls = append(calls, Call{Tool: name, Args: json.RawMessage(fmt.Sprintf(`{"text":"%s%d"}`, word, len(calls)))})
		}
	}
	return calls
}

// calls gives the agent the task. Each result has to hold the word of its call, and the agent has to say the last one.
func (a agent) calls(ctx context.Context, m *Model) error {
	out, err := a.exec(ctx, a.ask(task))
	if err != nil {
		return err
	}
	results := m.Results()
	for i, call := range m.Plan {
		if a.search != nil && i == 0 {
			continue // what it answers is its own affair
		}
		if i >= len(results) || !strings.Contains(results[i], fmt.Sprintf("%s%d", word, i)) {
			return fault.New(fault.Unavailable, "certify-not-called").
				Saying("call %d of %d (%s) did not come back with its word: %q; offered were %q; the run of %s: %s", i+1, len(m.Plan), call.Tool, results, m.Offers(), a.program, tail(out.text))
		}
	}
	if _, final, found := strings.Cut(out.text, "FINAL"); !found || !strings.Contains(final, fmt.Sprintf("%s%d", word, len(m.Plan)-1)) {
		return fault.New(fault.Unavailable, "certify-not-said").Saying("%s did not show the last answer: %s", a.program, tail(out.text))
	}
	return nil
}

// digest is the SHA-256 of a file, in hex; "absent" when there is none.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
