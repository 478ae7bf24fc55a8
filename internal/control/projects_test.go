package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// fakeDirectories are what is where, by path; a path that is not there is gone. The path /silent answers nothing.
type fakeDirectories map[string]uint64

func (f fakeDirectories) Survey(_ context.Context, path string) (session.Found, error) {
	inode, ok := f[path]
	switch {
	case path == "/silent":
		return session.Found{}, fault.New(fault.Unavailable, "project-silent").Saying("no answer")
	case !ok:
		return session.Found{Gone: "nothing is there"}, nil
	}
	return session.Found{Identity: session.Identity{Real: path, Volume: "f1", Inode: inode}}, nil
}
func (fakeDirectories) Home() string      { return "/h" }
func (fakeDirectories) Runtime() []string { return []string{"/state"} }

// kindsOf are the kinds of the events of an area, in order.
func kindsOf(t *testing.T, b *bench, ctx context.Context, area string) (kinds []event.Kind) { //nolint:revive // the test comes first
	t.Helper()
	if err := b.Events(ctx, api.EventsQuery{Kind: area}, func(e event.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return kinds
}

func codeOfFault(err error) string {
	if err == nil {
		return ""
	}
	return fault.From(err).Code
}

func TestProjects(t *testing.T) {
	b, ctx := newBench(t)
	b.dirs["/srv/shop"], b.dirs["/h"] = 7, 8
	added, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop/"})
	if err != nil || added.State != "added" || added.Project.Name != "shop" || added.Project.By != session.ByIdentity || !strings.HasPrefix(added.Project.ID, "proj_") {
		t.Fatalf("%+v, %v", added, err)
	}
	again, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop"})
	if err != nil || !again.Already || again.State != "already_added" || again.Project.ID != added.Project.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	for path, code := range map[string]string{
		"/h": "project-refused", "/srv/none": "project-missing", "relative": "project-path-invalid", "/a\x00": "project-path-invalid", "/silent": "project-unreadable",
	} {
		if _, err := b.AddProject(ctx, api.AddProject{Path: path}); codeOfFault(err) != code {
			t.Errorf("%q: %v, want %s", path, err, code)
		}
	}
	for _, name := range []string{"shop", added.Project.ID, "/srv/shop", added.Project.ID[:12]} {
		if p, err := b.Project(ctx, api.ProjectRef{Project: name}); err != nil || p.ID != added.Project.ID {
			t.Errorf("%s finds %s, %v", name, p.ID, err)
		}
	}
	gone, err := b.RemoveProject(ctx, api.ProjectRef{Project: "shop"})
	if err != nil || gone.State != "removed" {
		t.Fatalf("%+v, %v", gone, err)
	}
	if twice, err := b.RemoveProject(ctx, api.ProjectRef{Project: added.Project.ID}); err != nil || !twice.Already {
		t.Errorf("removed twice: %+v, %v", twice, err)
	}
	for all, want := range map[bool]int{false: 0, true: 1} {
		if page, err := b.Projects(ctx, api.ProjectsQuery{All: all}); err != nil || len(page.Projects) != want {
			t.Errorf("all %v: %+v, %v", all, page, err)
		}
	}
	if _, err := b.RebindProject(ctx, api.RebindProject{Project: added.Project.ID}); codeOfFault(err) != "project-unregistered" {
		t.Errorf("rebound though unregistered: %v", err)
	}
	back, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop", Name: "store"})
	if err != nil || back.State != "restored" || back.Project.ID != added.Project.ID || back.Project.Name != "store" {
		t.Errorf("back: %+v, %v", back, err)
	}
	if got := kindsOf(t, b, ctx, "project"); !slices.Equal(got, []event.Kind{event.ProjectAdded, event.ProjectRemoved, event.ProjectAdded}) {
		t.Errorf("told: %v", got)
	}
}

// TestProjectMoves: a list shows what is there and writes nothing; a turn writes it once; an error is no verdict.
func TestProjectMoves(t *testing.T) {
	b, ctx := newBench(t)
	b.dirs["/srv/shop"] = 7
	if _, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop"}); err != nil {
		t.Fatal(err)
	}
	state := func() session.ProjectState {
		t.Helper()
		page, err := b.Projects(ctx, api.ProjectsQuery{})
		if err != nil || len(page.Projects) != 1 {
			t.Fatal(page, err)
		}
		return page.Projects[0].State
	}
	turn := func() {
		t.Helper()
		for range 2 { // the second has no news
			if err := b.LookAtProjects(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.dirs["/srv/shop"] = 9
	if got := state(); got != session.ProjectMoved {
		t.Errorf("listed as %s", got)
	}
	if got := kindsOf(t, b, ctx, "project"); len(got) != 1 {
		t.Errorf("a list has written %v", got)
	}
	turn()
	b.dirs["/srv/shop"] = 7
	turn()
	delete(b.dirs, "/srv/shop")
	turn()
	b.dirs["/srv/new"] = 11
	bound, err := b.RebindProject(ctx, api.RebindProject{Project: "shop", Path: "/srv/new"})
	if err != nil || bound.State != "rebound" || bound.Project.State != session.ProjectOK || bound.Project.Path != "/srv/new" {
		t.Errorf("%+v, %v", bound, err)
	}
	if same, err := b.RebindProject(ctx, api.RebindProject{Project: "shop"}); err != nil || !same.Already {
		t.Errorf("rebound to where it is: %+v, %v", same, err)
	}
	turn()
	want := []event.Kind{event.ProjectAdded, event.ProjectMoved, event.ProjectFound, event.ProjectMoved, event.ProjectRebound}
	if got := kindsOf(t, b, ctx, "project"); !slices.Equal(got, want) {
		t.Errorf("told: %v, want %v", got, want)
	}
	// Nobody can tell: it stays as it was, and is not shown as ok.
	if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		p := bound.Project.Project
		p.Path = "/silent"
		return tx.PutProject(ctx, session.PutProject{Project: p})
	}); err != nil {
		t.Fatal(err)
	}
	turn()
	if p, err := b.Project(ctx, api.ProjectRef{Project: "shop"}); err != nil || p.State != session.ProjectOK || p.Unread == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// withSession is a bench with a project and an open session.
func withSession(t *testing.T) (*bench, context.Context, session.Session) {
	t.Helper()
	b, ctx := newBench(t)
	b.dirs["/srv/shop"] = 7
	added, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.OpenSession(session.OpenRequest{ID: "rs_01A", Principal: "bob", Role: session.Editor, Project: added.Project.Project, Label: "Fix it", Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutRemoteSession(ctx, session.PutSession{Session: s}) }); err != nil {
		t.Fatal(err)
	}
	return b, ctx, s
}

func TestRemoteSessions(t *testing.T) {
	b, ctx, s := withSession(t)
	for _, c := range []struct {
		in   api.RemoteSessionsQuery
		want int
		code string
	}{
		{api.RemoteSessionsQuery{}, 1, ""},
		{api.RemoteSessionsQuery{State: "all", Query: "SHOP"}, 1, ""},
		{api.RemoteSessionsQuery{State: "closed"}, 0, ""},
		{api.RemoteSessionsQuery{Query: "nothing"}, 0, ""},
		{api.RemoteSessionsQuery{State: "idle"}, 0, "request-invalid"},
		{api.RemoteSessionsQuery{Cursor: "x"}, 0, "request-invalid"},
	} {
		page, err := b.RemoteSessions(ctx, c.in)
		if len(page.Sessions) != c.want || codeOfFault(err) != c.code {
			t.Errorf("%+v: %+v, %v", c.in, page, err)
		}
	}
	if p, err := b.Project(ctx, api.ProjectRef{Project: "shop"}); err != nil || p.Open != 1 {
		t.Errorf("%d open, %v", p.Open, err)
	}
	closed, err := b.CloseSession(ctx, api.RemoteSessionRef{Session: "rs_01"})
	if err != nil || closed.State != "closed" || closed.Session.State != session.Closed || closed.Session.Name != "shop" {
		t.Fatalf("%+v, %v", closed, err)
	}
	if again, err := b.CloseSession(ctx, api.RemoteSessionRef{Session: s.ID}); err != nil || !again.Already || again.State != "already_closed" {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := b.HandOver(ctx, api.HandOver{Session: s.ID}); codeOfFault(err) != "session-closed" {
		t.Errorf("handed over though closed: %v", err)
	}
	if _, err := b.GrantSession(ctx, api.GrantSession{Session: s.ID, Principal: "ann", Role: session.Viewer}); codeOfFault(err) != "session-closed" {
		t.Errorf("granted though closed: %v", err)
	}
	if got := kindsOf(t, b, ctx, "session"); !slices.Equal(got, []event.Kind{event.SessionClosed}) {
		t.Errorf("told: %v", got)
	}
}

func TestGrants(t *testing.T) {
	b, ctx, s := withSession(t)
	role := func(revoke bool, role session.Role) (api.Granted, error) {
		return b.GrantSession(ctx, api.GrantSession{Session: s.ID, Principal: "ann", Role: role, Revoke: revoke})
	}
	for _, c := range []struct {
		revoke bool
		role   session.Role
		state  string
		code   string
	}{
		{true, "", "already_revoked", ""},
		{false, session.Owner, "", "request-invalid"},
		{false, session.Viewer, "granted", ""},
		{false, session.Viewer, "already_granted", ""},
		{false, session.Editor, "granted", ""},
		{true, "", "revoked", ""},
	} {
		out, err := role(c.revoke, c.role)
		if out.State != c.state || codeOfFault(err) != c.code {
			t.Errorf("%s, revoke %v: %+v, %v", c.role, c.revoke, out, err)
		}
	}
	if got := kindsOf(t, b, ctx, "session"); !slices.Equal(got, []event.Kind{event.SessionGranted, event.SessionGranted, event.SessionRevoked}) {
		t.Errorf("told: %v", got)
	}
	if out, err := b.GrantProject(ctx, api.GrantProject{Project: "shop", Principal: "ann", Role: session.Owner}); err != nil || out.State != "granted" {
		t.Errorf("%+v, %v", out, err)
	}
	if p, err := b.Project(ctx, api.ProjectRef{Project: "shop"}); err != nil || len(p.Grants) != 1 || p.Grants[0].Role != session.Owner {
		t.Errorf("%+v, %v", p.Grants, err)
	}
	// A program of the same user lets nobody in.
	b.person = fault.New(fault.Denied, "no-person").Saying("no terminal")
	for what, act := range map[string]func() error{
		"a grant of a session": func() error { _, err := role(false, session.Viewer); return err },
		"a grant of a project": func() error {
			_, err := b.GrantProject(ctx, api.GrantProject{Project: "shop", Principal: "eve", Role: session.Owner})
			return err
		},
		"a hand-over": func() error { _, err := b.HandOver(ctx, api.HandOver{Session: s.ID}); return err },
	} {
		if err := act(); codeOfFault(err) != "no-person" {
			t.Errorf("%s without a person: %v", what, err)
		}
	}
}

// TestHandOver: the token opens the session once, and neither the store nor the log holds it.
func TestHandOver(t *testing.T) {
	b, ctx, s := withSession(t)
	out, err := b.HandOver(ctx, api.HandOver{Session: s.ID, Role: session.Approver, Seconds: 120})
	if err != nil || out.Role != session.Approver || !out.Expires.Equal(b.now.Add(2*time.Minute)) || out.Token == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, bad := range []api.HandOver{{Session: s.ID, Role: session.Owner}, {Session: s.ID, Seconds: 59}, {Session: s.ID, Seconds: 86401}} {
		if _, err := b.HandOver(ctx, bad); codeOfFault(err) != "request-invalid" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	secret := out.Token[strings.LastIndexByte(out.Token, '_')+1:]
	if err := b.Events(ctx, api.EventsQuery{}, func(e event.Event) error {
		if strings.Contains(string(e.Body)+e.Summary, secret) {
			t.Errorf("event %s holds the token", e.Kind)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err = b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		got, _, err := session.RedeemToken(ctx, tx, session.RedeemTokenRequest{Key: b.cfg.HandoffKey, Token: out.Token, Principal: "ann", Now: b.now})
		if got.ID != s.ID {
			return errors.Join(err, errors.New("it leads to "+got.ID))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
