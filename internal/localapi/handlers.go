package localapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
)

type handler func(s *Server, op api.Op, w http.ResponseWriter, r *http.Request)

// handlers has one entry for each row of api.Ops.
var handlers = map[string]handler{
	"daemon.status":       unary(api.Service.DaemonStatus),
	"daemon.restart":      outside(api.Service.DaemonRestart),
	"daemon.reload":       unary(api.Service.DaemonReload),
	"daemon.stop":         stop,
	"status.show":         unary(api.Service.Status),
	"health.show":         unary(api.Service.Health),
	"process.list":        unary(api.Service.Processes),
	"config.discover":     unary(api.Service.ConfigFiles),
	"config.inspect":      unary(api.Service.InspectConfig),
	"project.list":        unary(api.Service.Projects),
	"project.show":        unary(api.Service.Project),
	"project.add":         unary(api.Service.AddProject),
	"project.remove":      unary(api.Service.RemoveProject),
	"project.rebind":      unary(api.Service.RebindProject),
	"trust.show":          unary(api.Service.ProjectTrust),
	"trust.decide":        unary(api.Service.TrustProject),
	"project.grant":       unary(api.Service.GrantProject),
	"session.list":        unary(api.Service.RemoteSessions),
	"session.show":        unary(api.Service.RemoteSession),
	"session.grant":       unary(api.Service.GrantSession),
	"session.handoff":     unary(api.Service.HandOver),
	"session.close":       unary(api.Service.CloseSession),
	"operation.list":      unary(api.Service.Operations),
	"operation.show":      unary(api.Service.Operation),
	"operation.resolve":   unary(api.Service.ResolveOperation),
	"job.list":            unary(api.Service.Jobs),
	"job.show":            unary(api.Service.Job),
	"job.logs":            stream(api.Service.JobLogs),
	"job.stop":            unary(api.Service.StopJob),
	"workspace.list":      unary(api.Service.Workspaces),
	"workspace.show":      unary(api.Service.Workspace),
	"workspace.diff":      unary(api.Service.WorkspaceDiff),
	"workspace.plan":      unary(api.Service.PlanIntegration),
	"workspace.create":    unary(api.Service.CreateWorkspace),
	"workspace.integrate": unary(api.Service.IntegrateWorkspace),
	"workspace.undo":      unary(api.Service.UndoIntegration),
	"workspace.suspend":   unary(api.Service.SuspendWorkspace),
	"workspace.resume":    unary(api.Service.ResumeWorkspace),
	"workspace.remove":    unary(api.Service.RemoveWorkspace),
	"generation.list":     unary(api.Service.Generations),
	"generation.show":     unary(api.Service.Generation),
	"generation.verify":   stream(api.Service.VerifyGeneration),
	"generation.produce":  unary(api.Service.ProduceGeneration),
	"generation.consume":  unary(api.Service.ConsumeGeneration),
	"generation.retain":   unary(api.Service.RetainGeneration),
	"generation.release":  unary(api.Service.ReleaseGeneration),
	"remote.show":         unary(api.Service.Remote),
	"remote.on":           unary(api.Service.TurnRemoteOn),
	"remote.off":          unary(api.Service.TurnRemoteOff),
	"remote.requests":     unary(api.Service.RemoteRequests),
	"remote.approve":      unary(api.Service.ApproveRemote),
	"remote.deny":         unary(api.Service.DenyRemote),
	"remote.list":         unary(api.Service.RemoteClients),
	"remote.revoke":       unary(api.Service.RevokeRemote),
	"token.list":          unary(api.Service.Tokens),
	"token.issue":         unary(api.Service.IssueToken),
	"token.rotate":        unary(api.Service.RotateToken),
	"token.revoke":        unary(api.Service.RevokeToken),
	"agent.check":         unary(api.Service.CheckAgents),
	"agent.capabilities":  unary(api.Service.AuthCapabilities),
	"agent.control":       unary(api.Service.InstallControl),
	"agent.mount":         unary(api.Service.MountServer),
	"profile.list":        unary(api.Service.Profiles),
	"profile.show":        unary(api.Service.Profile),
	"profile.set":         unary(api.Service.SetProfile),
	"hub.status":          unary(api.Service.HubStatus),
	"hub.plans":           unary(api.Service.HubPlans),
	"hub.plan":            unary(api.Service.HubPlan),
	"hub.entry":           unary(api.Service.HubEntry),
	"hub.runtime":         unary(api.Service.HubRuntime),
	"hub.credentials":     unary(api.Service.HubCredentials),
	"hub.catalog":         unary(api.Service.HubCatalog),
	"credential.list":     unary(api.Service.Credentials),
	"credential.show":     unary(api.Service.Credential),
	"credential.set":      unary(api.Service.SetCredential),
	"credential.check":    unary(api.Service.CheckCredentials),
	"credential.bind":     unary(api.Service.BindCredentials),
	"credential.grant":    unary(api.Service.GrantCredential),
	"credential.remove":   unary(api.Service.RemoveCredential),
	"server.list":         unary(api.Service.Servers),
	"server.show":         unary(api.Service.Server),
	"server.add":          unary(api.Service.AddServer),
	"server.edit":         unary(api.Service.EditServer),
	"server.remove":       unary(api.Service.RemoveServer),
	"server.enable":       unary(api.Service.EnableServer),
	"server.disable":      unary(api.Service.DisableServer),
	"server.restart":      unary(api.Service.RestartServer),
	"server.import":       unary(api.Service.ImportServers),
	"server.login":        stream(api.Service.LogIn),
	"server.logout":       unary(api.Service.LogOut),
	"catalog.list":        unary(api.Service.Catalog),
	"catalog.show":        unary(api.Service.CatalogServer),
	"catalog.candidates":  unary(api.Service.Candidates),
	"catalog.review":      unary(api.Service.Review),
	"catalog.link":        unary(api.Service.LinkEntry),
	"catalog.tools":       outside(api.Service.ReviewTools),
	"catalog.accept":      outside(api.Service.AcceptTools),
	"catalog.export":      unary(api.Service.ExportCatalog),
	"server.logs":         stream(api.Service.ServerLogs),
	"server.tools":        outside(api.Service.ServerTools),
	"server.call":         outside(api.Service.CallTool),
	"agent.list":          unary(api.Service.Agents),
	"agent.set":           unary(api.Service.SetAgent),
	"audit.run":           unary(api.Service.RunAudit),
	"audit.list":          stream(api.Service.Events),
	"audit.verify":        unary(api.Service.VerifyEvents),
	"audit.prune":         unary(api.Service.Prune),
	"plan.list":           unary(api.Service.Plans),
	"plan.show":           unary(api.Service.Plan),
	"plan.apply":          unary(api.Service.ApplyPlan),
	"plans.apply":         unary(api.Service.ApplyPlans),
	"approval.list":       unary(api.Service.Approvals),
	"approval.show":       unary(api.Service.Approval),
	"approval.decide":     unary(api.Service.Decide),
	"receipt.list":        unary(api.Service.Receipts),
	"cutover.record":      unary(api.Service.RecordCutover),
	"agent.certify":       unary(api.Service.KeepCertificate),
	"service.install":     unary(api.Service.InstallService),
	"receipt.rollback":    unary(api.Service.RollBack),
}

// unary is the handler of an operation with one answer.
func unary[In, Out any](call func(api.Service, context.Context, In) (Out, error)) handler {
	answer := outside(call)
	return func(s *Server, op api.Op, w http.ResponseWriter, r *http.Request) {
		if !s.enterOp() {
			fail(w, stoppingNow())
			return
		}
		defer s.ops.Done()
		answer(s, op, w, r)
	}
}

// outside is unary for an operation that a hand-over does not wait for: the hand-over itself, and what a server does.
func outside[In, Out any](call func(api.Service, context.Context, In) (Out, error)) handler {
	return func(s *Server, op api.Op, w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			fail(w, stoppingNow())
			return
		}
		defer s.busy.Done()
		var in In
		ctx, err := open(op, r, &in)
		if err != nil {
			fail(w, err)
			return
		}
		out, err := call(s.cfg.Service, ctx, in)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

// stream is the handler of an operation that answers with lines. Errors before the first line are plain errors; later
// ones are in the end line.
func stream[In, Line any](call func(api.Service, context.Context, In, func(Line) error) error) handler {
	return func(s *Server, op api.Op, w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			fail(w, stoppingNow())
			return
		}
		defer s.busy.Done()
		if !s.enterOp() {
			fail(w, stoppingNow())
			return
		}
		defer s.ops.Done()
		var in In
		ctx, err := open(op, r, &in)
		if err != nil {
			fail(w, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.leave, cancel)()

		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		flush := http.NewResponseController(w)
		var mu sync.Mutex // guards begun, and is held while a line is written
		begun := false
		begin := func() {
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "application/x-ndjson")
				w.WriteHeader(http.StatusOK)
			}
		}
		write := func(line api.StreamLine) error {
			mu.Lock()
			defer mu.Unlock()
			begin()
			if err := out.Encode(line); err != nil {
				return fault.New(fault.Canceled, "canceled").Saying("the reader left").Because(err)
			}
			return flush.Flush()
		}
		var beating sync.WaitGroup
		if b, ok := any(in).(interface{ Beats() bool }); ok && b.Beats() {
			beating.Go(func() {
				every := time.NewTicker(s.beat)
				defer every.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-every.C:
						if write(api.StreamLine{Beat: true}) != nil {
							cancel() // nobody reads
						}
					}
				}
			})
		}
		err = call(s.cfg.Service, ctx, in, func(line Line) error {
			data, err := api.Marshal(line)
			if err != nil {
				return fault.New(fault.Internal, "answer-unwritable").Saying("a line cannot be written as JSON").Because(err)
			}
			return write(api.StreamLine{Line: data})
		})
		cancel()
		beating.Wait()
		if err != nil && !begun {
			fail(w, err)
			return
		}
		begin()
		end := api.StreamLine{End: true}
		if err != nil {
			problem := api.ProblemOf(err)
			end.Error = &problem
		}
		_ = out.Encode(end) // a reader that left needs no end line
	}
}

// stop answers and then keeps the connection open: its end is the end of the process.
func stop(s *Server, op api.Op, w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		fail(w, stoppingNow())
		return
	}
	var in api.StopDaemon
	ctx, err := open(op, r, &in)
	var out api.Stopping
	if err == nil {
		out, err = s.cfg.Service.DaemonStop(ctx, in)
	}
	if err != nil {
		fail(w, err)
		s.busy.Done()
		return
	}
	reply(w, http.StatusOK, out)
	_ = http.NewResponseController(w).Flush() // a caller that left needs no answer
	s.busy.Done()
	select {
	case <-s.ended:
	case <-r.Context().Done():
	}
}

// open reads the request of a row and the operation id of a mutation.
func open(op api.Op, r *http.Request, in any) (context.Context, error) {
	id := r.Header.Get(api.HeaderKey)
	if op.Keyed && (len(id) > api.MaxKey || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })) {
		return nil, fault.New(fault.Invalid, "request-invalid").
			Saying("the %s header must be at most %d printable characters without spaces", api.HeaderKey, api.MaxKey)
	}
	if err := op.ReadRequest(r, in); err != nil {
		return nil, err
	}
	return api.Under(r.Context(), id), nil
}

func stoppingNow() error {
	return fault.New(fault.Unavailable, "daemon-stopping").Saying("the daemon is stopping").
		Hinting("repeat the command when it has ended").Retrying(fault.AfterWait)
}
