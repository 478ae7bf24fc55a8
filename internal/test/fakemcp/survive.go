package fakemcp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// pause waits for arguments.wait_ms; false: the call was cancelled meanwhile.
func (c *call) pause() bool {
	wait := 0
	_ = c.msg.arg("wait_ms", &wait) // at once
	if wait == 0 {
		return true
	}
	select {
	case <-time.After(time.Duration(wait) * time.Millisecond):
		return true
	case <-c.ctx.Done():
		return false
	}
}

// work is a call that can be told from every other one: arguments {key, wait_ms, pad}. It counts how often this process
// was asked for the key, waits, and answers "work KEY PID TIMES" and pad bytes.
func (c *call) work() {
	key, pad := "", 0
	_ = c.msg.arg("key", &key) // none: all such calls count together
	_ = c.msg.arg("pad", &pad)
	s := c.server
	s.mu.Lock()
	s.times[key]++
	times := s.times[key]
	s.mu.Unlock()
	if c.pause() {
		c.says("work %s %d %d%s", key, os.Getpid(), times, strings.Repeat("x", pad))
	}
}

// burst prints count notifications of exactly size bytes each, without their line feeds, as fast as they are taken:
// arguments {count, size, mark, wait_ms, file}. Each carries the mark and its number from 0. When the last one was
// taken, file is made, so that a test sees it without a client; then comes the answer.
func (c *call) burst() {
	count, size, mark, file := 1, 100, "", ""
	_ = c.msg.arg("count", &count) // the defaults
	_ = c.msg.arg("size", &size)
	_ = c.msg.arg("mark", &mark)
	_ = c.msg.arg("file", &file)
	if !c.pause() {
		return
	}
	var out bytes.Buffer
	for i := range count {
		head, tail := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s %d `, mark, i), `"}}`
		out.WriteString(head)
		for range size - len(head) - len(tail) {
			out.WriteByte('x')
		}
		out.WriteString(tail + "\n")
		if out.Len() > 1<<16 {
			c.server.print(out.Bytes())
			out.Reset()
		}
	}
	c.server.print(out.Bytes())
	if file != "" {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			panic(err) // a test waits for it
		}
	}
	c.says("burst %s %d", mark, count)
}

// die ends the fixture without an answer: arguments {wait_ms, code, signal, stderr, hold_stdout}. A signal that is not 0
// wins over the code. With hold_stdout a grandchild keeps stdout and stderr for a
// minute.
func (c *call) die() {
	code, signal, last, hold := 0, 0, "", false
	_ = c.msg.arg("code", &code) // the defaults
	_ = c.msg.arg("signal", &signal)
	_ = c.msg.arg("stderr", &last)
	_ = c.msg.arg("hold_stdout", &hold)
	if !c.pause() {
		return
	}
	if hold {
		cmd := exec.Command("sleep", "60")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	if last != "" {
		fmt.Fprintln(os.Stderr, last)
	}
	if signal == 0 {
		os.Exit(code)
	}
	// The runtime catches some signals; a shell in our place does not.
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$", signal)}, os.Environ())
	panic(err)
}
