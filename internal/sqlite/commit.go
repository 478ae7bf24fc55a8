package sqlite

import (
	"context"
	"slices"
	"sync"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// mostTogether bounds the changes of one commit: the first of them waits for the last.
const mostTogether = 64

// commit is one transaction of the writer. A change that has waited for its turn goes on with the transaction of the one
// before: what a commit costs is the wait for the disk, and that is the same for many. Each change has a savepoint of its
// own, and none is answered before the commit.
type commit struct {
	lane *lane
	size int           // changes that had their turn in it
	kept int           // those of them that succeeded
	last event.Event   // the end of the log, once one of them has added to it
	err  error         // why it cannot be made, or was not
	done chan struct{} // closed when it is over
}

// change runs fn as the only writer.
func (db *DB) change(ctx context.Context, fn func(*tx) error) error {
	c, err := db.turn(ctx)
	if err != nil {
		return describe(err, db.path)
	}
	err = db.attempt(c, fn)
	if <-c.done; c.err != nil {
		return c.err
	}
	return err
}

// turn waits for the turn as long as ctx allows. From then on nothing is interrupted: a cancelled statement rolls the
// transaction back behind fn and can poison the connection (TestExercise, case cancelled).
func (db *DB) turn(ctx context.Context) (*commit, error) {
	c, mine, err := db.turns.wait(ctx, db.writer.over)
	if err == nil && c == nil {
		c, err = db.begin(ctx)
	}
	if err != nil {
		if mine {
			db.pass(c)
		}
		return nil, err
	}
	c.size++
	return c, nil
}

func (db *DB) begin(ctx context.Context) (*commit, error) {
	l, err := db.writer.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.exec(db.writer.begin); err != nil {
		db.writer.give(l, false)
		return nil, err
	}
	return &commit{lane: l, done: make(chan struct{})}, nil
}

// attempt runs fn in a savepoint, and passes the turn on whatever fn does.
func (db *DB) attempt(c *commit, fn func(*tx) error) (err error) {
	t := &tx{lane: c.lane, path: db.path, last: c.last}
	kept := false
	defer func() { // after an error or a panic of fn this undoes what it did, and nothing else
		if !kept {
			db.undo(c, err)
		}
		db.pass(c)
	}()
	if err := c.lane.exec("SAVEPOINT change"); err != nil {
		return describe(err, db.path)
	}
	if err := fn(t); err != nil {
		return err
	}
	if err := c.lane.exec("RELEASE change"); err != nil {
		return describe(err, db.path)
	}
	kept = true
	c.kept++
	c.last = t.last
	return nil
}

// undo takes a change back. SQLite may have undone the whole transaction already, as it does when the disk is full: then
// none of its changes is made.
func (db *DB) undo(c *commit, why error) {
	err := c.lane.exec("ROLLBACK TO change")
	if err == nil {
		err = c.lane.exec("RELEASE change")
	}
	switch {
	case err == nil:
	case fault.KindOf(why) == fault.Unavailable:
		c.err = why
	default:
		c.err = describe(err, db.path)
	}
}

// pass ends a turn: the change that waits longest goes on with the transaction, or the transaction ends.
func (db *DB) pass(c *commit) {
	if c != nil {
		if c.err == nil && c.size < mostTogether && db.turns.next(c) {
			return
		}
		db.end(c)
	}
	db.turns.next(nil)
}

func (db *DB) end(c *commit) {
	sound := false
	if c.err == nil && c.kept > 0 {
		crash.Point("sqlite.before-commit")
		if err := c.lane.exec("COMMIT"); err != nil {
			c.err = describe(err, db.path)
		} else {
			sound = true
			crash.Point("sqlite.after-commit")
		}
	}
	made := sound
	db.writer.give(c.lane, sound || c.lane.exec("ROLLBACK") == nil)
	if made {
		db.Ring()
	}
	close(c.done)
}

// turns give the writer to one change after the other.
type turns struct {
	mu    sync.Mutex // guards taken and queue
	taken bool
	queue []chan *commit // each gets the transaction to go on with, nil for a new one
}

// wait waits for the turn until ctx ends or the database is closed. A turn that was given to one that left is its own to
// pass on: then mine comes with an error.
func (q *turns) wait(ctx context.Context, over <-chan struct{}) (c *commit, mine bool, err error) {
	if ctx.Err() != nil {
		return nil, false, left(ctx)
	}
	q.mu.Lock()
	if !q.taken {
		q.taken = true
		q.mu.Unlock()
		return nil, true, nil
	}
	turn := make(chan *commit, 1)
	q.queue = append(q.queue, turn)
	q.mu.Unlock()
	select {
	case c := <-turn:
		if ctx.Err() != nil {
			err = left(ctx)
		}
		return c, true, err
	case <-over:
		err = errClosed
	case <-ctx.Done():
		err = left(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.queue, turn); i >= 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
		return nil, false, err
	}
	return <-turn, true, err
}

// next gives the turn to the change that waits longest. False: none waits, and without a transaction the turn is free.
func (q *turns) next(c *commit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.taken = c != nil
		return false
	}
	q.queue[0] <- c
	q.queue = slices.Delete(q.queue, 0, 1)
	return true
}
