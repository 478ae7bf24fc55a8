package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// remoteCases has one case for each method of the port of projects, remote sessions and work plans.
var remoteCases = map[string]func(*testing.T, Pair){
	"Projects":          projects,
	"ProjectByID":       projectByID,
	"PutProject":        putProject,
	"RemoteSessions":    remoteSessions,
	"RemoteSessionByID": remoteSessionByID,
	"PutRemoteSession":  putRemoteSession,
	"Grants":            grants,
	"PutGrant":          putGrant,
	"DeleteGrant":       deleteGrant,
	"HandoffByID":       handoffByID,
	"PutHandoff":        putHandoff,
	"WorkPlans":         workPlans,
	"WorkPlanByID":      workPlanByID,
	"PutWorkPlan":       putWorkPlan,
	"AllTrusts":         allTrusts,
	"TrustOf":           trustOf,
	"PutTrust":          putTrust,
	"Artifacts":         artifacts,
	"ArtifactByID":      artifactByID,
	"PutArtifact":       putArtifact,
}

// wanted reads one thing that may be missing.
func wanted[T any](t *testing.T, p Pair, fn func(store.Reader) (T, error)) (T, error) {
	t.Helper()
	var out T
	err := p.Read.View(t.Context(), func(r store.Reader) (err error) {
		out, err = fn(r)
		return err
	})
	return out, err
}

// byBeginning shows that a thing is found by its whole id and by a beginning that only it has.
func byBeginning[T any](t *testing.T, p Pair, get func(store.Reader, session.ByID) (T, error), idOf func(T) string, prefix, unknown, several string) {
	t.Helper()
	find := func(id string) (T, error) {
		return wanted(t, p, func(r store.Reader) (T, error) { return get(r, session.ByID{ID: id}) })
	}
	for _, id := range []string{prefix + "abd", prefix + "abd1"} {
		if v, err := find(id); err != nil || idOf(v) != prefix+"abd1" && id != prefix+"abd" {
			t.Errorf("%s finds %s, %v", id, idOf(v), err)
		}
	}
	if v, err := find(prefix + "abc"); err != nil || idOf(v) != prefix+"abc" {
		t.Errorf("the whole id finds %s, %v", idOf(v), err)
	}
	_, err := find(prefix + "ab")
	wantFault(t, err, fault.Conflict, several)
	for _, id := range []string{"", prefix + "z"} {
		_, err := find(id)
		wantFault(t, err, fault.NotFound, unknown)
	}
}

func project(id, name string) session.Project {
	return session.Project{
		ID: id, Name: name, Path: "/link to/ü", By: session.ByPath, State: session.ProjectMoved, Why: "gone", Added: uneven, Removed: uneven.Add(time.Hour),
		Physical: session.Identity{
			Real: "/real/ü", Volume: "0f", Inode: 1<<64 - 1, Born: 1<<62 + 1, Unstable: "nfs",
		},
	}
}

func putProjects(t *testing.T, p Pair, all ...session.Project) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutProject(t.Context(), session.PutProject{Project: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func projects(t *testing.T, p Pair) {
	gone := project("proj_b", "gone")
	gone.State = session.ProjectRemoved
	putProjects(t, p, project("proj_c", "c"), project("proj_a", "a"), gone)
	list := func(l session.ListProjects) (ids []string) {
		for _, v := range read(t, p.Read, func(r store.Reader) ([]session.Project, error) { return r.Projects(t.Context(), l) }) {
			ids = append(ids, v.ID)
		}
		return ids
	}
	same(t, "registered", []string{"proj_a", "proj_c"}, list(session.ListProjects{}))
	same(t, "all", []string{"proj_a", "proj_b", "proj_c"}, list(session.ListProjects{Removed: true}))
	same(t, "limit", []string{"proj_a"}, list(session.ListProjects{Limit: 1}))
	putProjects(t, p, project("proj_aa", "between"))
	same(t, "a page after a change", []string{"proj_c"}, list(session.ListProjects{After: "proj_aa"}))
	var many []session.Project
	for i := range session.MaxProjectPage + 1 {
		many = append(many, project(fmt.Sprintf("proj_x%04d", i), fmt.Sprintf("x%d", i)))
	}
	putProjects(t, p, many...)
	if n := len(list(session.ListProjects{Limit: 1 << 30})); n != session.MaxProjectPage {
		t.Errorf("a page holds %d projects, want at most %d", n, session.MaxProjectPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]session.Project, error) { return session.AllProjects(t.Context(), r, true) })
	if len(all) != len(many)+4 {
		t.Errorf("AllProjects gives %d, want %d", len(all), len(many)+4)
	}
}

func projectByID(t *testing.T, p Pair) {
	putProjects(t, p, project("proj_abc", "a"), project("proj_abd1", "b"))
	byBeginning(t, p, func(r store.Reader, by session.ByID) (session.Project, error) { return r.ProjectByID(t.Context(), by) },
		func(v session.Project) string { return v.ID }, "proj_", "project-unregistered", "project-ambiguous")
}

func putProject(t *testing.T, p Pair) {
	want := project("proj_a", "shop")
	putProjects(t, p, want)
	want.Added, want.Removed = store.CutTime(want.Added), store.CutTime(want.Removed)
	get := func() session.Project {
		return read(t, p.Read, func(r store.Reader) (session.Project, error) {
			return r.ProjectByID(t.Context(), session.ByID{ID: "proj_a"})
		})
	}
	same(t, "every field", want, get())
	put := func(v session.Project) error {
		return p.Write.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutProject(t.Context(), session.PutProject{Project: v})
		})
	}
	wantFault(t, put(project("proj_b", "shop")), fault.Conflict, "project-exists")
	want.State, want.Why = session.ProjectRemoved, ""
	putProjects(t, p, want)
	same(t, "written again", want, get())
	if err := put(project("proj_b", "shop")); err != nil {
		t.Errorf("the name of an unregistered project: %v", err)
	}
	want.State = session.ProjectOK
	wantFault(t, put(want), fault.Conflict, "project-exists")
}

func remoteSession(id, principal string) session.Session {
	return session.Session{
		ID: id, Principal: principal, Project: "proj_1", Label: "Ünïcode <&>", State: session.Open, Created: uneven, Used: uneven.Add(time.Minute),
		Closed: uneven.Add(time.Hour), Turn: 7, Intent: "find out",
	}
}

func putRemoteSessions(t *testing.T, p Pair, all ...session.Session) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutRemoteSession(t.Context(), session.PutSession{Session: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func remoteSessionByName(t *testing.T, p Pair, id string) session.Session {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) (session.Session, error) {
		return r.RemoteSessionByID(t.Context(), session.ByID{ID: id})
	})
}

func putGrants(t *testing.T, p Pair, all ...session.Grant) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutGrant(t.Context(), session.PutGrant{Grant: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func remoteSessions(t *testing.T, p Pair) {
	elsewhere, closed := remoteSession("rs_b", "owner"), remoteSession("rs_c", "eve")
	elsewhere.Project, closed.State = "proj_2", session.Closed
	putRemoteSessions(t, p, remoteSession("rs_z", "owner"), elsewhere, closed, remoteSession("rs_a", "eve"))
	putGrants(t, p, session.Grant{About: "rs_a", Principal: "owner", Role: session.Viewer}, session.Grant{About: "rs_c", Principal: "bob", Role: session.Viewer})
	list := func(l session.ListSessions) (ids []string) {
		for _, v := range read(t, p.Read, func(r store.Reader) ([]session.Session, error) { return r.RemoteSessions(t.Context(), l) }) {
			ids = append(ids, v.ID)
		}
		return ids
	}
	same(t, "all, the last used first", []string{"rs_a", "rs_c", "rs_b", "rs_z"}, list(session.ListSessions{}))
	same(t, "own and granted", []string{"rs_a", "rs_b", "rs_z"}, list(session.ListSessions{Principal: "owner"}))
	same(t, "granted", []string{"rs_c"}, list(session.ListSessions{Principal: "bob"}))
	same(t, "nobody's", []string(nil), list(session.ListSessions{Principal: "mallory"}))
	same(t, "of a project", []string{"rs_b"}, list(session.ListSessions{Project: "proj_2"}))
	same(t, "closed", []string{"rs_c"}, list(session.ListSessions{State: session.Closed}))
	same(t, "limit", []string{"rs_a", "rs_c"}, list(session.ListSessions{Limit: 2}))
	before := remoteSessionByName(t, p, "rs_c").Use
	used := remoteSessionByName(t, p, "rs_z")
	used.Used = used.Used.Add(time.Hour)
	putRemoteSessions(t, p, used)
	same(t, "a page after a use", []string{"rs_b"}, list(session.ListSessions{Before: before}))
	same(t, "the used one is first", []string{"rs_z"}, list(session.ListSessions{Limit: 1}))
	var many []session.Session
	for i := range session.MaxSessionPage + 1 {
		many = append(many, remoteSession(fmt.Sprintf("rs_x%04d", i), "many"))
	}
	putRemoteSessions(t, p, many...)
	if n := len(list(session.ListSessions{Limit: 1 << 30})); n != session.MaxSessionPage {
		t.Errorf("a page holds %d sessions, want at most %d", n, session.MaxSessionPage)
	}
}

func remoteSessionByID(t *testing.T, p Pair) {
	putRemoteSessions(t, p, remoteSession("rs_abc", "owner"), remoteSession("rs_abd1", "owner"))
	byBeginning(t, p, func(r store.Reader, by session.ByID) (session.Session, error) {
		return r.RemoteSessionByID(t.Context(), by)
	}, func(v session.Session) string { return v.ID }, "rs_", "session-unknown", "session-ambiguous")
}

func putRemoteSession(t *testing.T, p Pair) {
	want := remoteSession("rs_a", "owner")
	want.Use = 77 // the store gives it
	putRemoteSessions(t, p, want)
	want.Created, want.Used, want.Closed, want.Use = store.CutTime(want.Created), store.CutTime(want.Used), store.CutTime(want.Closed), 1
	same(t, "every field", want, remoteSessionByName(t, p, "rs_a"))
	putRemoteSessions(t, p, remoteSession("rs_b", "owner"))

	want.Label, want.Use = "another", 0
	putRemoteSessions(t, p, want)
	want.Use = 1
	same(t, "written without a use", want, remoteSessionByName(t, p, "rs_a"))
	want.Used = want.Used.Add(time.Microsecond)
	putRemoteSessions(t, p, want)
	want.Use = 3
	same(t, "written with a use", want, remoteSessionByName(t, p, "rs_a"))

	want.State = session.Closed
	putRemoteSessions(t, p, want)
	want.Label = "of a closed one"
	putRemoteSessions(t, p, want)
	want.State = session.Open
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutRemoteSession(t.Context(), session.PutSession{Session: want})
	}), fault.Conflict, "session-final")
	same(t, "closed", session.Closed, remoteSessionByName(t, p, "rs_a").State)
}

func grants(t *testing.T, p Pair) {
	putGrants(t, p, session.Grant{About: "rs_2", Principal: "eve"}, session.Grant{About: "rs_1", Principal: "eve"}, session.Grant{About: "rs_1", Principal: "bob"})
	list := func(l session.ListGrants) (all []string) {
		for _, v := range read(t, p.Read, func(r store.Reader) ([]session.Grant, error) { return r.Grants(t.Context(), l) }) {
			all = append(all, v.Principal+" "+v.About)
		}
		return all
	}
	same(t, "of a principal", []string{"eve rs_1", "eve rs_2"}, list(session.ListGrants{Principal: "eve"}))
	same(t, "about a session", []string{"bob rs_1", "eve rs_1"}, list(session.ListGrants{About: "rs_1"}))
	same(t, "both", []string{"eve rs_2"}, list(session.ListGrants{Principal: "eve", About: "rs_2"}))
	same(t, "limit", []string{"eve rs_1"}, list(session.ListGrants{Principal: "eve", Limit: 1}))
	putGrants(t, p, session.Grant{About: "rs_11", Principal: "eve"}, session.Grant{About: "rs_1", Principal: "carol"})
	same(t, "a page of a principal after a change", []string{"eve rs_2"}, list(session.ListGrants{Principal: "eve", After: session.Grant{About: "rs_11"}}))
	same(t, "a page about a session after a change", []string{"eve rs_1"}, list(session.ListGrants{About: "rs_1", After: session.Grant{Principal: "carol"}}))
	var many []session.Grant
	for i := range session.MaxGrantPage + 1 {
		many = append(many, session.Grant{About: fmt.Sprintf("rs_x%04d", i), Principal: "many"})
	}
	putGrants(t, p, many...)
	if n := len(list(session.ListGrants{Principal: "many", Limit: 1 << 30})); n != session.MaxGrantPage {
		t.Errorf("a page holds %d grants, want at most %d", n, session.MaxGrantPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]session.Grant, error) {
		return session.AllGrants(t.Context(), r, session.ListGrants{Principal: "many"})
	})
	if len(all) != len(many) {
		t.Errorf("AllGrants gives %d, want %d", len(all), len(many))
	}
}

func putGrant(t *testing.T, p Pair) {
	want := session.Grant{About: "rs_1", Principal: "eve", Role: session.Editor, By: "owner", Handoff: "ho_1", At: uneven}
	putGrants(t, p, want)
	want.At = store.CutTime(want.At)
	get := func() []session.Grant {
		return read(t, p.Read, func(r store.Reader) ([]session.Grant, error) {
			return r.Grants(t.Context(), session.ListGrants{Principal: "eve"})
		})
	}
	same(t, "every field", []session.Grant{want}, get())
	want.Role, want.Handoff = session.Viewer, ""
	putGrants(t, p, want)
	same(t, "in place of the other", []session.Grant{want}, get())
}

func deleteGrant(t *testing.T, p Pair) {
	putGrants(t, p, session.Grant{About: "rs_1", Principal: "eve"}, session.Grant{About: "rs_2", Principal: "eve"})
	for range 2 { // the second finds nothing
		change(t, p.Write, func(tx store.Tx) error {
			return tx.DeleteGrant(t.Context(), session.DeleteGrant{About: "rs_1", Principal: "eve"})
		})
	}
	left := read(t, p.Read, func(r store.Reader) ([]session.Grant, error) {
		return r.Grants(t.Context(), session.ListGrants{Principal: "eve"})
	})
	if len(left) != 1 || left[0].About != "rs_2" {
		t.Errorf("left are %v", left)
	}
}

func handoff(id string) session.Handoff {
	return session.Handoff{
		ID: id, Session: "rs_1", Role: session.Approver, By: "owner", Operation: "op-1", Made: uneven, Expires: uneven.Add(time.Hour),
	}
}

func putHandoffs(t *testing.T, p Pair, all ...session.Handoff) error {
	t.Helper()
	return p.Write.Change(t.Context(), func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutHandoff(t.Context(), session.PutHandoff{Handoff: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func getHandoff(t *testing.T, p Pair, id string) (session.Handoff, error) {
	t.Helper()
	return wanted(t, p, func(r store.Reader) (session.Handoff, error) { return r.HandoffByID(t.Context(), session.ByID{ID: id}) })
}

func handoffByID(t *testing.T, p Pair) {
	if err := putHandoffs(t, p, handoff("ho_abc")); err != nil {
		t.Fatal(err)
	}
	if v, err := getHandoff(t, p, "ho_abc"); err != nil || v.ID != "ho_abc" {
		t.Errorf("got %s, %v", v.ID, err)
	}
	for _, id := range []string{"", "ho_ab", "ho_abcd"} { // a beginning is not enough
		_, err := getHandoff(t, p, id)
		wantFault(t, err, fault.NotFound, "handoff-unknown")
	}
}

func putHandoff(t *testing.T, p Pair) {
	want := handoff("ho_1")
	if err := putHandoffs(t, p, want); err != nil {
		t.Fatal(err)
	}
	want.UsedBy, want.Used = "eve", uneven.Add(time.Minute)
	if err := putHandoffs(t, p, want); err != nil {
		t.Fatal(err)
	}
	got, err := getHandoff(t, p, "ho_1")
	if err != nil {
		t.Fatal(err)
	}
	want.Made, want.Expires, want.Used = store.CutTime(want.Made), store.CutTime(want.Expires), store.CutTime(want.Used)
	same(t, "every field", want, got)
	again := want
	again.UsedBy = "mallory"
	wantFault(t, putHandoffs(t, p, again), fault.Conflict, "handoff-used")
	wantFault(t, putHandoffs(t, p, handoff("ho_1")), fault.Conflict, "handoff-used")
	got, err = getHandoff(t, p, "ho_1")
	if err != nil || got.UsedBy != "eve" {
		t.Errorf("it was used by %q, %v", got.UsedBy, err)
	}
}

func workPlan(id, in string, version int) session.WorkPlan {
	return session.WorkPlan{
		ID: id, Session: in, Version: version, State: session.PlanOpen, Summary: "Ünïcode <&> \u2028", Gone: []string{"old"}, Created: uneven, Changed: uneven.Add(time.Hour),
		Tasks: []session.Task{
			{Key: "a", Title: "first", Description: "d", State: session.TaskCompleted, Evidence: []session.Evidence{{Kind: session.EvidenceRead, Ref: "x@0f"}}},
			{Key: "b", Title: "second", DependsOn: []string{"a"}, State: session.TaskBlocked, Reason: "r"},
		},
	}
}

func putWorkPlans(t *testing.T, p Pair, all ...session.WorkPlan) error {
	t.Helper()
	return p.Write.Change(t.Context(), func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutWorkPlan(t.Context(), session.PutWorkPlan{Plan: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func workPlans(t *testing.T, p Pair) {
	ended := workPlan("wp_b", "rs_1", 1)
	ended.State = session.PlanDelivered
	if err := putWorkPlans(t, p, workPlan("wp_c", "rs_1", 1), ended, workPlan("wp_a", "rs_1", 1), workPlan("wp_d", "rs_2", 1)); err != nil {
		t.Fatal(err)
	}
	list := func(l session.ListWorkPlans) (ids []string) {
		for _, v := range read(t, p.Read, func(r store.Reader) ([]session.WorkPlan, error) { return r.WorkPlans(t.Context(), l) }) {
			ids = append(ids, v.ID)
		}
		return ids
	}
	same(t, "of a session", []string{"wp_a", "wp_b", "wp_c"}, list(session.ListWorkPlans{Session: "rs_1"}))
	same(t, "open", []string{"wp_a", "wp_c"}, list(session.ListWorkPlans{Session: "rs_1", State: session.PlanOpen}))
	same(t, "limit", []string{"wp_a"}, list(session.ListWorkPlans{Session: "rs_1", Limit: 1}))
	if err := putWorkPlans(t, p, workPlan("wp_aa", "rs_1", 1)); err != nil {
		t.Fatal(err)
	}
	same(t, "a page after a change", []string{"wp_b", "wp_c"}, list(session.ListWorkPlans{Session: "rs_1", After: "wp_aa"}))
	var many []session.WorkPlan
	for i := range session.MaxWorkPlanPage + 1 {
		many = append(many, workPlan(fmt.Sprintf("wp_x%04d", i), "rs_3", 1))
	}
	if err := putWorkPlans(t, p, many...); err != nil {
		t.Fatal(err)
	}
	if n := len(list(session.ListWorkPlans{Session: "rs_3", Limit: 1 << 30})); n != session.MaxWorkPlanPage {
		t.Errorf("a page holds %d plans, want at most %d", n, session.MaxWorkPlanPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]session.WorkPlan, error) {
		return session.AllWorkPlans(t.Context(), r, session.ListWorkPlans{Session: "rs_3"})
	})
	if len(all) != len(many) {
		t.Errorf("AllWorkPlans gives %d, want %d", len(all), len(many))
	}
}

func workPlanByID(t *testing.T, p Pair) {
	if err := putWorkPlans(t, p, workPlan("wp_abc", "rs_1", 1), workPlan("wp_abd1", "rs_1", 1)); err != nil {
		t.Fatal(err)
	}
	byBeginning(t, p, func(r store.Reader, by session.ByID) (session.WorkPlan, error) {
		return r.WorkPlanByID(t.Context(), by)
	},
		func(v session.WorkPlan) string { return v.ID }, "wp_", "work-plan-unknown", "work-plan-ambiguous")
}

func putWorkPlan(t *testing.T, p Pair) {
	get := func() session.WorkPlan {
		return read(t, p.Read, func(r store.Reader) (session.WorkPlan, error) {
			return r.WorkPlanByID(t.Context(), session.ByID{ID: "wp_1"})
		})
	}
	wantFault(t, putWorkPlans(t, p, workPlan("wp_1", "rs_1", 2)), fault.Stale, "work-plan-stale")
	want := workPlan("wp_1", "rs_1", 1)
	if err := putWorkPlans(t, p, want); err != nil {
		t.Fatal(err)
	}
	want.Created, want.Changed = store.CutTime(want.Created), store.CutTime(want.Changed)
	same(t, "every field", want, get())
	for _, version := range []int{0, 1, 3} {
		wantFault(t, putWorkPlans(t, p, workPlan("wp_1", "rs_1", version)), fault.Stale, "work-plan-stale")
	}
	want.Version, want.State, want.Tasks, want.Gone = 2, session.PlanCancelled, nil, nil
	if err := putWorkPlans(t, p, want); err != nil {
		t.Fatal(err)
	}
	same(t, "the next version", want, get())
	wantFault(t, putWorkPlans(t, p, workPlan("wp_1", "rs_1", 3)), fault.Conflict, "work-plan-final")
	same(t, "a final one", want, get())
}

func artifact(id, in string) session.Artifact {
	return session.Artifact{
		ID: id, Principal: "owner", Project: "proj_1", Session: in, Operation: "op-" + id, Path: "out/report.xml", Name: "report", Kind: session.ArtifactTestReport,
		Media: "text/xml", SHA256: "aa", Bytes: 7, Registered: uneven, Parts: []string{"r_1", "r_2"},
	}
}

func putArtifacts(t *testing.T, p Pair, all ...session.Artifact) error {
	t.Helper()
	return p.Write.Change(t.Context(), func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutArtifact(t.Context(), session.PutArtifact{Artifact: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func artifacts(t *testing.T, p Pair) {
	other := artifact("art_d", "rs_3")
	other.Project = "proj_2"
	if err := putArtifacts(t, p, artifact("art_a", "rs_1"), artifact("art_b", ""), artifact("art_c", "rs_1"), other); err != nil {
		t.Fatal(err)
	}
	list := func(l session.ListArtifacts) (ids []string) {
		for _, v := range read(t, p.Read, func(r store.Reader) ([]session.Artifact, error) { return r.Artifacts(t.Context(), l) }) {
			ids = append(ids, v.ID)
		}
		return ids
	}
	same(t, "of a session", []string{"art_c", "art_a"}, list(session.ListArtifacts{Session: "rs_1"}))
	same(t, "of a project", []string{"art_c", "art_b", "art_a"}, list(session.ListArtifacts{Project: "proj_1"}))
	same(t, "limit", []string{"art_c"}, list(session.ListArtifacts{Project: "proj_1", Limit: 1}))
	if err := putArtifacts(t, p, artifact("art_e", "rs_1")); err != nil {
		t.Fatal(err)
	}
	same(t, "a page after a change", []string{"art_b", "art_a"}, list(session.ListArtifacts{Project: "proj_1", Before: "art_c"}))
	same(t, "one of a session", []string{"art_a"}, list(session.ListArtifacts{Session: "rs_1", Before: "art_c"}))
	var many []session.Artifact
	for i := range session.MaxArtifactPage + 1 {
		many = append(many, artifact(fmt.Sprintf("art_x%04d", i), "rs_4"))
	}
	if err := putArtifacts(t, p, many...); err != nil {
		t.Fatal(err)
	}
	same(t, "the largest page", session.MaxArtifactPage, len(list(session.ListArtifacts{Session: "rs_4", Limit: 1 << 30})))
}

func artifactByID(t *testing.T, p Pair) {
	want := artifact("art_1", "rs_1")
	if err := putArtifacts(t, p, want); err != nil {
		t.Fatal(err)
	}
	want.Registered = store.CutTime(want.Registered)
	same(t, "every field", want, read(t, p.Read, func(r store.Reader) (session.Artifact, error) {
		return r.ArtifactByID(t.Context(), session.ByID{ID: "art_1"})
	}))
	for _, id := range []string{"art_", "art_2", ""} {
		wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := r.ArtifactByID(t.Context(), session.ByID{ID: id})
			return err
		}), fault.NotFound, "artifact-unknown")
	}
}

func putArtifact(t *testing.T, p Pair) {
	want := artifact("art_1", "rs_1")
	if err := putArtifacts(t, p, want); err != nil {
		t.Fatal(err)
	}
	again := want
	again.SHA256 = "bb"
	wantFault(t, putArtifacts(t, p, again), fault.Conflict, "artifact-final")
	got := read(t, p.Read, func(r store.Reader) (session.Artifact, error) {
		return r.ArtifactByID(t.Context(), session.ByID{ID: "art_1"})
	})
	same(t, "it stayed", want.SHA256, got.SHA256)
}
