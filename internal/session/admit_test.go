package session_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/test/storetest"
)

var (
	noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	key  = []byte("key of this daemon")
)

// stored is a store with two projects, and sessions of the operator and of ann, who is an editor of shop only.
func stored(t *testing.T) store.DB {
	t.Helper()
	db := storetest.NewModel()
	change(t, db, func(tx store.Tx) error {
		var errs []error
		for _, name := range []string{"shop", "lab"} {
			errs = append(errs, tx.PutProject(t.Context(), session.PutProject{Project: session.Project{
				ID: "proj_" + name, Name: name, Path: "/srv/" + name, By: session.ByIdentity, State: session.ProjectOK, Physical: session.Identity{Real: "/srv/" + name},
			}}))
		}
		errs = append(errs, tx.PutGrant(t.Context(), session.PutGrant{Grant: session.Grant{About: "proj_shop", Principal: "ann", Role: session.Editor}}))
		for _, s := range []session.Session{
			{ID: "rs_own1", Principal: session.Operator, Project: "proj_shop", Label: "Fix the build"},
			{ID: "rs_own2", Principal: session.Operator, Project: "proj_lab", State: session.Closed},
			{ID: "rs_ann1", Principal: "ann", Project: "proj_shop"},
			{ID: "rs_ann2", Principal: "ann", Project: "proj_lab"}, // her grant of it was taken away
		} {
			if s.State == "" {
				s.State = session.Open
			}
			s.Created, s.Used = noon, noon
			errs = append(errs, tx.PutRemoteSession(t.Context(), session.PutSession{Session: s}))
		}
		return errors.Join(errs...)
	})
	return db
}

func change(t *testing.T, db store.DB, fn func(store.Tx) error) {
	t.Helper()
	if err := db.Change(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) operation.Code {
	if err == nil {
		return ""
	}
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r.Code
	}
	return operation.Code(err.Error())
}

// TestRT21Foreign: a foreign session, one that is not there, and a beginning of an id have one answer but for the id.
func TestRT21Foreign(t *testing.T) {
	db := stored(t)
	admit := func(id, principal string, act session.Act) (a session.Admission, err error) {
		err = db.View(t.Context(), func(r store.Reader) error {
			a, err = session.Admit(t.Context(), r, session.AdmitRequest{Session: id, Principal: principal, Act: act})
			return err
		})
		return a, err
	}
	for _, id := range []string{"rs_own1", "rs_nobody", "rs_ann2", "rs_own", ""} {
		_, err := admit(id, "ann", session.ActRead)
		r, ok := errors.AsType[*operation.Refusal](err)
		if !ok || r.Code != operation.SessionNotFound || r.Message != fmt.Sprintf("there is no session %q", id) || r.Details != nil {
			t.Errorf("%q: %+v", id, err)
		}
	}
	if a, err := admit("rs_ann1", "ann", session.ActChange); err != nil || a.Role != session.Editor || a.Project.Name != "shop" || a.Session.ID != "rs_ann1" {
		t.Errorf("her own: %+v, %v", a, err)
	}
	if _, err := admit("rs_ann1", "ann", session.ActShare); codeOf(err) != operation.RoleDenied {
		t.Errorf("an editor shares: %v", err)
	}
	if _, err := admit("rs_own2", session.Operator, session.ActRead); err != nil {
		t.Errorf("reads in a closed session: %v", err)
	}
	if _, err := admit("rs_own2", session.Operator, session.ActChange); codeOf(err) != operation.SessionClosed {
		t.Errorf("a change in a closed session: %v", err)
	}
	change(t, db, func(tx store.Tx) error {
		p, err := tx.ProjectByID(t.Context(), session.ByID{ID: "proj_shop"})
		p.State = session.ProjectMoved
		return errors.Join(err, tx.PutProject(t.Context(), session.PutProject{Project: p}))
	})
	if _, err := admit("rs_own1", session.Operator, session.ActChange); codeOf(err) != operation.ProjectMoved {
		t.Errorf("a change in a project that moved: %v", err)
	}
	if _, err := admit("rs_own1", session.Operator, session.ActRead); err != nil {
		t.Errorf("a read in a project that moved: %v", err)
	}
}

// TestRT25Guest: without a session a guest gets nowhere; RT-30: with a token it sees its session and its project alone.
func TestRT25Guest(t *testing.T) {
	db := stored(t)
	admit := func(project, principal string, act session.Act) (err error) {
		return db.View(t.Context(), func(r store.Reader) error {
			_, err := session.AdmitProject(t.Context(), r, session.AdmitProjectRequest{Project: project, Principal: principal, Act: act})
			return err
		})
	}
	for _, c := range []struct {
		project, principal string
		act                session.Act
		want               operation.Code
	}{
		{"shop", session.Operator, session.ActChange, ""},
		{"/srv/lab", session.Operator, session.ActShare, ""},
		{"shop", "ann", session.ActChange, ""},
		{"proj_shop", "ann", session.ActDecide, operation.RoleDenied},
		{"lab", "ann", session.ActRead, operation.ProjectUnknown},
		{"nowhere", "ann", session.ActRead, operation.ProjectUnknown},
		{"shop", "guest", session.ActRead, operation.ProjectUnknown},
		{"", session.Operator, session.ActRead, operation.ProjectUnknown},
	} {
		if got := codeOf(admit(c.project, c.principal, c.act)); got != c.want {
			t.Errorf("%s on %s as %s: %q, want %q", c.act, c.project, c.principal, got, c.want)
		}
	}

	h, err := session.MakeHandoff(session.HandoffRequest{ID: "ho_1", Session: "rs_own1", Role: session.Viewer, By: session.Operator, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	token := h.Token(key, noon)
	change(t, db, func(tx store.Tx) error { return tx.PutHandoff(t.Context(), session.PutHandoff{Handoff: h}) })
	redeem := func(token, principal string, at time.Time) (s session.Session, err error) {
		err = db.Change(t.Context(), func(tx store.Tx) error {
			s, _, err = session.RedeemToken(t.Context(), tx, session.RedeemTokenRequest{Key: key, Token: token, Principal: principal, Now: at})
			return err
		})
		return s, err
	}
	unknown := session.Handoff{ID: "ho_2", Expires: noon.Add(time.Hour)}.Token(key, noon) // ours, and of no hand-over
	for what, try := range map[string]func() (session.Session, error){
		"unknown": func() (session.Session, error) { return redeem(unknown, "guest", noon) },
		"random":  func() (session.Session, error) { return redeem("mcpx_ho_x_y", "guest", noon) },
		"late":    func() (session.Session, error) { return redeem(token, "guest", noon.Add(time.Hour)) },
	} {
		if _, err := try(); codeOf(err) != session.HandoffInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := redeem(token, "guest", noon); err != nil || s.ID != "rs_own1" {
		t.Fatalf("%s, %v", s.ID, err)
	}
	if _, err := redeem(token, "other", noon); codeOf(err) != session.HandoffInvalid {
		t.Errorf("a second use: %v", err)
	}
	page := sessions(t, db, session.SessionsRequest{Principal: "guest"})
	if len(page.Sessions) != 1 || page.Sessions[0].Session.ID != "rs_own1" || page.Sessions[0].Role != session.Viewer || page.Sessions[0].Project.Name != "shop" {
		t.Errorf("the guest sees %+v", page.Sessions)
	}
	if err := db.View(t.Context(), func(r store.Reader) error {
		all, err := session.Projects(t.Context(), r, "guest")
		if len(all) != 0 {
			t.Errorf("the guest sees the projects %+v", all)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := codeOf(admit("shop", "guest", session.ActRead)); got != operation.ProjectUnknown {
		t.Errorf("the guest without its session: %q", got)
	}
}

func sessions(t *testing.T, db store.DB, in session.SessionsRequest) (page session.Page) {
	t.Helper()
	if err := db.View(t.Context(), func(r store.Reader) (err error) {
		page, err = session.Sessions(t.Context(), r, in)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return page
}

func ids(page session.Page) (all []string) {
	for _, a := range page.Sessions {
		all = append(all, a.Session.ID)
	}
	return all
}

func TestSessions(t *testing.T) {
	db := stored(t)
	for what, c := range map[string]struct {
		in   session.SessionsRequest
		want []string
	}{
		"of the operator":        {session.SessionsRequest{Principal: session.Operator}, []string{"rs_own2", "rs_own1"}},
		"that are open":          {session.SessionsRequest{Principal: session.Operator, State: session.Open}, []string{"rs_own1"}},
		"with a label":           {session.SessionsRequest{Principal: session.Operator, Query: "fix THE"}, []string{"rs_own1"}},
		"with a project":         {session.SessionsRequest{Principal: session.Operator, Query: "LAB"}, []string{"rs_own2"}},
		"with an id":             {session.SessionsRequest{Principal: session.Operator, Query: "own1"}, []string{"rs_own1"}},
		"nothing fits":           {session.SessionsRequest{Principal: session.Operator, Query: "zzz"}, nil},
		"without a lost project": {session.SessionsRequest{Principal: "ann"}, []string{"rs_ann1"}},
		"of nobody":              {session.SessionsRequest{Principal: "eve"}, nil},
	} {
		if got := ids(sessions(t, db, c.in)); !slices.Equal(got, c.want) {
			t.Errorf("sessions %s: %v, want %v", what, got, c.want)
		}
	}
	// Pages hold every session once, however few fit.
	change(t, db, func(tx store.Tx) error {
		for i := range 2*session.MaxSessionPage + 50 {
			s := session.Session{ID: fmt.Sprintf("rs_m%04d", i), Principal: session.Operator, Project: "proj_shop", State: session.Open, Used: noon}
			if i%100 == 7 {
				s.Label = "seldom"
			}
			if err := tx.PutRemoteSession(t.Context(), session.PutSession{Session: s}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, query := range []string{"", "seldom"} {
		var all []string
		in := session.SessionsRequest{Principal: session.Operator, Query: query, Limit: 3}
		for {
			page := sessions(t, db, in)
			if len(page.Sessions) > 3 {
				t.Fatalf("a page of %d", len(page.Sessions))
			}
			all = append(all, ids(page)...)
			if page.Next == 0 {
				break
			}
			in.Before = page.Next
		}
		want := 2*session.MaxSessionPage + 52
		if query != "" {
			want = 5
		}
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != want || len(all) != want {
			t.Errorf("%q: %d sessions, %d different ones, want %d", query, len(all), n, want)
		}
	}
}

func TestPickPlan(t *testing.T) {
	db := stored(t)
	plan := func(id, in string, state session.PlanState) {
		change(t, db, func(tx store.Tx) error {
			return tx.PutWorkPlan(t.Context(), session.PutWorkPlan{Plan: session.WorkPlan{ID: id, Session: in, Version: 1, State: state}})
		})
	}
	pick := func(in, id string) (p session.WorkPlan, err error) {
		err = db.View(t.Context(), func(r store.Reader) error {
			p, err = session.PickPlan(t.Context(), r, session.PickPlanRequest{Session: in, Plan: id})
			return err
		})
		return p, err
	}
	_, err := pick("rs_own1", "")
	if codeOf(err) != session.PlanNotFound {
		t.Errorf("none: %v", err)
	}
	plan("wp_1", "rs_own1", session.PlanCancelled)
	plan("wp_2", "rs_own1", session.PlanOpen)
	plan("wp_3", "rs_ann1", session.PlanOpen)
	for id, want := range map[string]string{"": "wp_2", "wp_1": "wp_1", "wp_2": "wp_2"} {
		if p, err := pick("rs_own1", id); err != nil || p.ID != want {
			t.Errorf("%q gives %s, %v", id, p.ID, err)
		}
	}
	plan("wp_4", "rs_own1", session.PlanOpen)
	for _, id := range []string{"", "wp_3", "wp_9", "wp_"} {
		_, err := pick("rs_own1", id)
		r, ok := errors.AsType[*operation.Refusal](err)
		if !ok || r.Code != session.PlanNotFound || !slices.Equal(r.Details["open"].([]string), []string{"wp_2", "wp_4"}) {
			t.Errorf("%q: %+v", id, err)
		}
	}
}
