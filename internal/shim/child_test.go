//go:build unix

package shim_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcpx/internal/shim"
)

// TestMain makes the test binary three programs: the tests, a supervisor, and the raw child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case shim.Subcommand:
			speak()
			os.Exit(shim.Main(os.Args[2:]))
		case "child":
			os.Exit(child(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// child is a scriptable raw server. Its arguments happen before it reads; each line that it reads is
// {"id":N,"do":"verb","arg":"..."}, and an answer is {"id":N,"result":...}. Lines without "do" are echoed as a whole; with the method mirror they become answers.
// Errors of writing are dropped: a reader that has gone is part of what is tested.
func child(args []string) int {
	for _, a := range args {
		verb, arg, _ := strings.Cut(a, "=")
		if code, end := act(verb, arg, nil); end {
			return code
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			_ = out.Flush()
			return 0
		}
		var m struct {
			ID  json.RawMessage
			Do  string
			Arg string
		}
		if bytes.Contains(line, []byte(`"do":`)) && json.Unmarshal(line, &m) == nil && m.Do != "" {
			_ = out.Flush()
			if code, end := act(m.Do, m.Arg, m.ID); end {
				return code
			}
			continue
		}
		_, _ = out.Write(bytes.Replace(line, []byte(`"method":"mirror"`), []byte(`"result":"mirror"`), 1))
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
	}
}

// act does one verb. end says that the child exits with code.
func act(verb, arg string, id json.RawMessage) (code int, end bool) {
	n, _ := strconv.Atoi(arg)
	reply := func(result any) {
		b, _ := json.Marshal(map[string]any{"id": id, "result": result})
		_, _ = os.Stdout.Write(append(b, '\n'))
	}
	switch verb {
	case "exit":
		return n, true
	case "signal":
		// A Go program would catch most signals and exit with a code.
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$; sleep 60", n)}, nil)
		fmt.Fprintln(os.Stderr, err)
		return 97, true
	case "print":
		_, _ = os.Stdout.WriteString(arg + "\n")
	case "complain":
		_, _ = os.Stderr.WriteString(arg + "\n")
	case "ignore-term":
		signal.Ignore(syscall.SIGTERM)
	case "ignore-eof":
		// a goroutine that never ends keeps the process when main would return
		go func() { select {} }()
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				time.Sleep(time.Hour)
			}
			_, _ = os.Stdout.Write(line)
		}
	case "deaf":
		time.Sleep(time.Hour)
	case "close-stdout":
		_ = os.Stdout.Close()
	case "close-stdin":
		_ = os.Stdin.Close()
		time.Sleep(time.Hour)
	case "delay":
		time.Sleep(time.Duration(n) * time.Millisecond)
		reply("late")
	case "flood": // n notifications of 100 bytes
		w := bufio.NewWriterSize(os.Stdout, 64<<10)
		for i := range n {
			_, _ = fmt.Fprintf(w, `{"method":"n","params":{"i":%d,"pad":"%s"}}`+"\n", i, strings.Repeat("x", 60))
		}
		_ = w.Flush()
		if id != nil {
			reply(n)
		}
	case "big": // one answer of about n bytes, id last, as the TypeScript SDK writes it
		w := bufio.NewWriterSize(os.Stdout, 64<<10)
		_, _ = w.WriteString(`{"result":"`)
		pad := bytes.Repeat([]byte("y"), 1<<16)
		for left := n; left > 0; left -= len(pad) {
			_, _ = w.Write(pad[:min(left, len(pad))])
		}
		_, _ = fmt.Fprintf(w, `","jsonrpc":"2.0","id":%s}`+"\n", id)
		_ = w.Flush()
	case "grandchild": // one that outlives us with our stdout, in our group
		c := exec.Command(os.Args[0], "child", "ignore-term", "deaf")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return 99, true
		}
		reply(c.Process.Pid)
	case "wait-for": // answers when the file is there, and reads nothing until then
		awaitFile(arg)
		reply("late")
	case "big-after", "flood-after", "exit-after": // the verb without "-after", when the file is there
		path, rest, _ := strings.Cut(arg, " ")
		awaitFile(path)
		return act(strings.TrimSuffix(verb, "-after"), rest, id)
	case "ask-many":
		w := bufio.NewWriterSize(os.Stdout, 64<<10)
		for i := range n {
			_, _ = fmt.Fprintf(w, `{"id":%d,"method":"roots/list"}`+"\n", i)
		}
		_ = w.Flush()
	case "silent":
	case "later": // answers when the file is there, and reads on
		go func() {
			awaitFile(arg)
			reply("late")
		}()
	case "env":
		reply(os.Environ())
	case "where":
		wd, _ := os.Getwd()
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		reply(map[string]any{"pid": os.Getpid(), "ppid": os.Getppid(), "pgid": syscall.Getpgrp(), "sid": sid, "wd": wd})
	default:
		fmt.Fprintln(os.Stderr, "unknown verb", verb)
		return 98, true
	}
	return 0, false
}

// awaitFile looks ever less often, so that 200 waiting children leave the machine to what they wait for.
func awaitFile(path string) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(pause)
	}
}
