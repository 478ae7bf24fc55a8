//go:build linux || darwin

package process

import (
	"bufio"
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// ReadHidden reads one line from a terminal that does not show it. It calls ask when nothing is shown any more, and drops
// what was typed before. The terminal is as it was afterwards, also when ctx
// ends first; the read itself then waits for the next line or the end of the process.
func ReadHidden(ctx context.Context, f *os.File, ask func()) (string, error) {
	fd := int(f.Fd())
	shown, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return "", err
	}
	silent := *shown
	silent.Lflag &^= unix.ECHO
	silent.Lflag |= unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(fd, setTermios, &silent); err != nil {
		return "", err
	}
	defer func() { _ = unix.IoctlSetTermios(fd, setTermios, shown) }() // it could be changed a moment ago
	ask()
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(f).ReadString('\n')
		if line != "" {
			err = nil // the end of input ends the line, too
		}
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
