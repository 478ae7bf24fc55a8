package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// noteEvery is how often the end of the log is noted at most: the note is made durable each time.
const noteEvery = 5 * time.Second

// noteHeads notes the end of the log beside the database while it grows, and when the daemon ends: who takes events away at
// the end of the log has to know of the note, too.
func (d *Daemon) noteHeads() *loop {
	ctx, end := context.WithCancel(d.ending)
	l := &loop{end: end, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for {
			grown := d.db.Changed()
			if err := d.noteHead(context.WithoutCancel(ctx)); err != nil {
				d.log.LogAttrs(ctx, slog.LevelWarn, "the end of the log was not noted", slog.Any(key.Cause, err))
			}
			if ctx.Err() != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-grown:
				select {
				case <-ctx.Done():
				case <-time.After(noteEvery):
				}
			}
		}
	}()
	return l
}

// noteHead notes the last event, unless the one that was noted before is no longer there: then the older note tells.
func (d *Daemon) noteHead(ctx context.Context) error {
	noted, err := d.notedHead()
	if err != nil {
		return err
	}
	var last event.Event
	var lost *event.Bad
	err = d.db.View(ctx, func(r store.Reader) error {
		var err error
		if lost, err = event.VerifyHead(ctx, r, noted); err == nil {
			last, err = r.EventHead(ctx)
		}
		return err
	})
	if err != nil || lost != nil || last.Seq == noted.Seq {
		return err
	}
	data, err := json.Marshal(event.Head{Seq: last.Seq, Hash: last.Hash})
	if err != nil {
		return err
	}
	return atomicfile.Write(d.headFile(), append(data, '\n'), 0o600)
}

// notedHead is the note; zero there is none.
func (d *Daemon) notedHead() (event.Head, error) {
	var noted event.Head
	data, err := os.ReadFile(d.headFile())
	if errors.Is(err, fs.ErrNotExist) {
		return noted, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &noted)
	}
	if err != nil {
		return event.Head{}, fault.New(fault.Unavailable, "head-unreadable").Saying("%s, the note of the last event, cannot be read", d.headFile()).
			Hinting("remove it if you trust the log as it is; it is made anew").Because(err)
	}
	return noted, nil
}

func (d *Daemon) headFile() string { return filepath.Join(d.cfg.Paths.State, "events.head") }
