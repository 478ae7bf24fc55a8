package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/clientfile"
	"mcpx/internal/id"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/sqlite"
	"mcpx/internal/store"
	"mcpx/internal/work"
)

// pair is one thing against another that was measured in the same rounds, both in turns.
type pair struct {
	Scenario string  `json:"scenario"`
	What     string  `json:"what"`
	Against  string  `json:"against"`
	Callers  int     `json:"callers"` // of each at once
	Rate     float64 `json:"per_s"`
	Base     float64 `json:"against_per_s"`
	Ratio    float64 `json:"ratio"` // of the two, median of the rounds
}

// took is how long one took its caller, in milliseconds.
func (p pair) took() (one, other float64) {
	return 1000 * float64(p.Callers) / p.Rate, 1000 * float64(p.Callers) / p.Base
}

// pair measures two things that can be done again and again, by so many callers at once.
func (b *bench) pair(ctx context.Context, r *report, scenario string, callers int, what, base string, do, other func(context.Context) error) error {
	b.say("%s, %d callers", what, callers)
	span := time.Second
	if b.o.quick {
		span /= 5
	}
	var rates, bases, ratios []float64
	for round := range b.o.rounds + 1 {
		rate, err := perSecond(ctx, callers, span, do)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		of, err := perSecond(ctx, callers, span, other)
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		if round > 0 { // the first one fills caches
			rates, bases, ratios = append(rates, rate), append(bases, of), append(ratios, rate/of)
		}
	}
	r.Pairs = append(r.Pairs, pair{scenario, what, base, callers, median(rates), median(bases), median(ratios)})
	return nil
}

func perSecond(ctx context.Context, callers int, span time.Duration, do func(context.Context) error) (float64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < span && ctx.Err() == nil {
				if err := do(ctx); err != nil {
					stop(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// ledger measures operations of the runtime, in this process, against commits of one row with the same settings of SQLite.
func (b *bench) ledger(ctx context.Context, r *report) (err error) {
	dir, err := os.MkdirTemp(b.dir, "ledger")
	if err != nil {
		return err
	}
	bare, err := bareCommits(ctx, filepath.Join(dir, "bare.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	row := strings.Repeat("x", rowSize)
	commit := func(ctx context.Context) error {
		_, err := bare.ExecContext(ctx, "INSERT INTO t (body) VALUES (?)", row)
		return err
	}
	desk, err := newDesk(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, desk.close()) }()
	if err := desk.open(ctx); err != nil {
		return err
	}
	for _, callers := range []int{1, 16} {
		for _, one := range []struct {
			name string
			do   func(context.Context) error
		}{{opPlan, desk.plan}, {opEdit, desk.edit}} {
			if err := b.pair(ctx, r, scenarioLedger, callers, one.name, "one commit", one.do, commit); err != nil {
				return err
			}
		}
	}
	return nil
}

const scenarioLedger = "ledger"

// rowSize is what the row of an operation with its arguments and its answer has, in bytes.
const rowSize = 1200

// The operations that are measured: one that is a change of the database, in one commit, and one that has an effect
// outside of it, in three.
const (
	opPlan = "plan create"
	opEdit = "edit_files of one new file"
)

func bareCommits(ctx context.Context, path string) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "CREATE TABLE t (n INTEGER PRIMARY KEY, body TEXT)")
	return db, err
}

// desk is the runtime on a database of its own.
type desk struct {
	dir     string
	db      *sqlite.DB
	work    *work.Service
	session string
	count   atomic.Int64
}

func newDesk(ctx context.Context, dir string) (*desk, error) {
	d := &desk{dir: filepath.Join(dir, "shop")}
	state := filepath.Join(dir, "state")
	err := errors.Join(os.Mkdir(d.dir, 0o700), os.Mkdir(state, 0o700))
	if err != nil {
		return nil, err
	}
	if d.db, err = sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "mcpx.db"), Backups: filepath.Join(dir, "backups"), Now: time.Now}); err != nil {
		return nil, err
	}
	d.work, err = work.New(work.Config{
		DB: d.db, Key: make([]byte, 32), IDs: id.NewSource(time.Now, rand.Reader), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		State: state, Home: dir, Redact: func(s string) string { return s },
		Rules: func(string) policy.Rules { return policy.Rules{} }, YAML: clientfile.ReadYAML,
	})
	return d, err
}

func (d *desk) close() error {
	d.work.Stop()
	return d.db.Close()
}

// benchProject is the id of the project of a desk.
const benchProject = "proj_01BENCH0000000000000000000"

// open registers the project and opens a session on it.
func (d *desk) open(ctx context.Context) error {
	project := session.Project{ID: benchProject, Name: "shop", Path: d.dir, State: session.ProjectOK, By: session.ByPath, Added: time.Now()}
	project.Physical.Real = d.dir
	if err := d.db.Change(ctx, func(tx store.Tx) error { return tx.PutProject(ctx, session.PutProject{Project: project}) }); err != nil {
		return err
	}
	raw, err := d.call(ctx, "session", map[string]any{"action": "open", "project": "shop"})
	if err != nil {
		return err
	}
	var opened struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	if err := json.Unmarshal(raw, &opened); err != nil {
		return err
	}
	d.session = opened.Session.ID
	return nil
}

func (d *desk) plan(ctx context.Context) error {
	_, err := d.call(ctx, "plan", map[string]any{"action": "create", "remote_session_id": d.session, "summary": "x", "tasks": []any{map[string]any{"key": "one", "title": "one"}}})
	return err
}

func (d *desk) edit(ctx context.Context) error {
	_, err := d.call(ctx, "edit_files", map[string]any{
		"remote_session_id": d.session, "edits": []any{map[string]any{"op": "create", "path": fmt.Sprintf("f%d.txt", d.count.Add(1)), "content": "hello\n"}},
	})
	return err
}

func (d *desk) call(ctx context.Context, tool string, args map[string]any) (json.RawMessage, error) {
	args["operation_id"] = fmt.Sprintf("bench-%08d", d.count.Add(1))
	return d.read(ctx, tool, args)
}

// read calls a tool that changes nothing.
func (d *desk) read(ctx context.Context, tool string, args map[string]any) (json.RawMessage, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	a := d.work.Do(ctx, work.Call{Tool: tool, Args: raw, Principal: "owner"})
	if a.Refusal != nil {
		return nil, fmt.Errorf("%s: %s: %s", tool, a.Refusal.Code, a.Refusal.Message)
	}
	return a.Data, nil
}
