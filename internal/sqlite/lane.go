package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"mcpx/internal/fault"
)

// lane is one connection and the statements that were compiled on it: compiling one takes longer than running it. One
// transaction at a time has it.
type lane struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // by their text
}

// maxStatements bounds what a lane keeps. The statements of this package are fewer; a text that is put together for its
// arguments would add one each time.
const maxStatements = 400

// prepared compiles a statement the first time.
func (l *lane) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := l.stmts[query]; ok {
		return s, nil
	}
	s, err := l.conn.PrepareContext(context.WithoutCancel(ctx), query)
	if err != nil {
		return nil, err
	}
	l.stmts[query] = s
	return s, nil
}

// exec runs one of the statements around a transaction.
func (l *lane) exec(query string) error {
	s, err := l.prepared(context.Background(), query) //nolint:sqlclosecheck // it is closed with the lane
	if err == nil {
		_, err = s.ExecContext(context.Background())
	}
	return err
}

// forget closes the statements.
func (l *lane) forget() (err error) {
	for _, s := range l.stmts {
		err = errors.Join(err, s.Close())
	}
	l.stmts = map[string]*sql.Stmt{}
	return err
}

func (l *lane) close() error { return errors.Join(l.forget(), l.conn.Close()) }

// lanes are the connections of one kind.
type lanes struct {
	pool  *sql.DB
	begin string        // what begins a transaction
	turns chan struct{} // holds one for each lane that is in use
	over  chan struct{} // closed with the database

	mu   sync.Mutex // guards free
	free []*lane    // the one that was used last is used next: it has the warmest cache
}

func newLanes(pool *sql.DB, begin string, most int) *lanes {
	return &lanes{pool: pool, begin: begin, turns: make(chan struct{}, most), over: make(chan struct{})}
}

// errClosed is what a transaction gets that comes after Close.
var errClosed = errors.New("the database is closed")

// take waits for a lane as long as ctx allows. Its error is the driver's, errClosed or fault.Canceled.
func (p *lanes) take(ctx context.Context) (*lane, error) {
	if ctx.Err() != nil {
		return nil, left(ctx)
	}
	select {
	case <-p.over:
		return nil, errClosed
	default:
	}
	select {
	case p.turns <- struct{}{}:
	case <-p.over:
		return nil, errClosed
	case <-ctx.Done():
		return nil, left(ctx)
	}
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		l := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return l, nil
	}
	p.mu.Unlock()
	conn, err := p.pool.Conn(context.WithoutCancel(ctx))
	if err != nil {
		<-p.turns
		return nil, err
	}
	return &lane{conn: conn, stmts: map[string]*sql.Stmt{}}, nil
}

func left(ctx context.Context) error {
	return fault.New(fault.Canceled, "store-wait").Saying("the wait for the database ended").Because(context.Cause(ctx))
}

// give gives a lane back. One that is not sound is closed, which undoes what was begun on it.
func (p *lanes) give(l *lane, sound bool) {
	if sound && len(l.stmts) > maxStatements {
		sound = l.forget() == nil
	}
	if sound {
		p.mu.Lock()
		p.free = append(p.free, l)
		p.mu.Unlock()
	} else {
		_ = l.close() // it is of no use any more
	}
	<-p.turns
}

// close waits for the transactions that run, and closes everything. Only the first call does something.
func (p *lanes) close() error {
	p.mu.Lock()
	select {
	case <-p.over:
		p.mu.Unlock()
		return nil
	default:
	}
	close(p.over)
	p.mu.Unlock()
	for range cap(p.turns) {
		p.turns <- struct{}{}
	}
	var errs []error
	for _, l := range p.free {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, p.pool.Close())...)
}
