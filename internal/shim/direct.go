//go:build unix

package shim

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// direct is a link to a child of this process.
type direct struct {
	backend *Backend
	dir     bundle
	program process.Executable // before the start
	life    *life
	raw     syscall.RawConn
	sink    gateway.Sink
	box     outbox
	tail    tail
	skips   atomic.Uint64
	started time.Time

	closing sync.Once
	done    chan struct{} // closed when nothing more is called on sink
}

var (
	_ gateway.Link = (*direct)(nil)
	_ output       = (*direct)(nil)
	_ output       = (*supervisor)(nil)
)

// openDirect starts the child of this process.
func (b *Backend) openDirect(o gateway.Open, c process.Command, sink gateway.Sink) (gateway.Link, error) {
	dir, err := b.newBundle()
	if err != nil {
		return nil, err
	}
	program := b.files.examine(c.File)
	child, err := process.Start(c)
	if err != nil {
		_ = dir.remove() // swept at the next start if it fails
		return nil, err
	}
	d := &direct{backend: b, dir: dir, program: program, sink: sink, started: b.cfg.Now(), done: make(chan struct{})}
	d.life = newLife(child, b.cfg.Ladder, &d.tail, func() { _ = child.Stdin.Close() })
	d.raw, _ = child.Stdin.SyscallConn() // fails only on a closed file
	d.box.port = d
	// With the record the next daemon finds a child that ignored our death.
	err = writeJSON(dir.record(), record{
		Format: formatVersion, ID: dir.id(), Kind: kindDirect, Server: o.Server.ID, Name: o.Server.Name, Lane: o.Lane, Process: o.Process, Supervisor: b.self,
		Version: b.cfg.Version, Executable: program, Child: &child.ID, Started: d.started, State: stateRunning,
	})
	if err != nil {
		d.life.end(reasonTerminated, "no record", process.Ladder{Stdin: -1, Term: -1})
	}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		pumpOutput(child.Stdout, d)
		close(d.life.out)
	})
	pumps.Go(func() {
		pumpStderr(child.Stderr, func(chunk []byte) {
			d.tail.write(chunk)
			d.sink.Stderr(bytes.Clone(chunk))
		})
		close(d.life.errs)
	})
	b.join.Go(func() { d.wait(child, &pumps) })
	if err != nil {
		return nil, unwritable(err)
	}
	return d, nil
}

// wait sees the child to its end.
func (d *direct) wait(child *process.Child, pumps *sync.WaitGroup) {
	info := d.life.wait(func() bool { return false })
	_ = child.Stdin.Close() // wakes a writer
	_ = child.Stdout.Close()
	_ = child.Stderr.Close()
	pumps.Wait()
	d.box.stop(errGone())
	_ = d.dir.remove() // swept at the next start if it fails
	d.sink.Closed(exitOf(info))
	close(d.done)
}

// Send hands over one message. See gateway.Link.
func (d *direct) Send(m gateway.Outbound) error {
	if len(m.Body) > maxToChild {
		return tooLarge(m)
	}
	return d.box.send(m)
}

// Abort drops a request that is still queued here.
func (d *direct) Abort(ref uint64) bool { return d.box.abort(ref) }

// Close begins the ladder. See gateway.Link.
func (d *direct) Close(reason string) {
	d.closing.Do(func() {
		d.box.refuse(errClosing())
		d.life.end(reasonTerminated, reason, process.Ladder{})
	})
}

// Detach ends the child: nobody else can own it.
func (d *direct) Detach(ctx context.Context) error {
	d.Close("detach")
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Info is what status output shows.
func (d *direct) Info() gateway.LinkInfo {
	return gateway.LinkInfo{
		Pid: d.life.child.ID.Pid, Started: d.started, Version: d.backend.cfg.Version, Skipped: d.skips.Load(),
	}
}

func (d *direct) messages(lines [][]byte) {
	for _, line := range lines {
		d.sink.Deliver(gateway.Inbound{Body: line})
	}
}

func (d *direct) skipped(line []byte) {
	d.skips.Add(1)
	chunk := skippedChunk(line)
	d.tail.write(chunk)
	d.sink.Stderr(chunk)
}

func (d *direct) overlong(o overlong) { d.sink.Overlong(o.ID, o.Size) }

func (d *direct) tryWrite(b []byte) (int, error) {
	n, err := tryWrite(d.raw, b)
	d.sent(err)
	return n, err
}

func (d *direct) write(b []byte) error {
	_, err := d.life.child.Stdin.Write(b)
	d.sent(err)
	return err
}

func (d *direct) sent(err error) {
	if err != nil && process.IsClosedPipe(err) {
		d.backend.join.Go(d.life.stdinClosed)
	}
}

func (d *direct) encode(b []byte, m gateway.Outbound, _ uint64) []byte {
	return append(append(b, m.Body...), '\n')
}

// encodeDone is for links with a supervisor.
func (d *direct) encodeDone(b []byte, _ []uint64) []byte { return b }

// handed: the pipe has all bytes, so the child may act on them.
func (d *direct) handed(refs []uint64) {
	for _, ref := range refs {
		if ref != 0 {
			d.sink.Written(ref)
		}
	}
}
