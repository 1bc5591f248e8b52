package iii

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
)

// The types of frames.
const (
	typeWorkerRegistered     = "workerregistered"
	typeReattach             = "reattach"
	typeRegisterFunction     = "registerfunction"
	typeRegisterTrigger      = "registertrigger"
	typeTriggerResult        = "triggerregistrationresult"
	typeRegistrationRejected = "registrationrejected"
	typeInvokeFunction       = "invokefunction"
	typeInvocationResult     = "invocationresult"
	typePing                 = "ping"
	typePong                 = "pong"
)

// codeWorkerConflict is the code of a refusal that ends the worker.
const codeWorkerConflict = "WORKER_NAMESPACE_CONFLICT"

// registerWorker is the function of the engine that takes what a worker says about itself.
const registerWorker = "engine::workers::register"

// A frame is one message, either way, with the keys of its type.
type frame struct {
	Type string `json:"type"`

	WorkerID         string `json:"worker_id,omitempty"`
	PreviousWorkerID string `json:"previous_worker_id,omitempty"`
	ReattachToken    string `json:"reattach_token,omitempty"`

	ID          string         `json:"id,omitempty"`
	Description string         `json:"description,omitempty"`
	TriggerType string         `json:"trigger_type,omitempty"`
	Config      map[string]any `json:"config,omitempty"`
	Namespace   string         `json:"namespace,omitempty"`

	InvocationID string          `json:"invocation_id,omitempty"`
	FunctionID   string          `json:"function_id,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	Action       *action         `json:"action,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
	Error        *errorBody      `json:"error,omitempty"`

	Code          string `json:"code,omitempty"`
	WorkerName    string `json:"worker_name,omitempty"`
	OwnerWorkerID string `json:"owner_worker_id,omitempty"`
}

type action struct {
	Type string `json:"type"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// triggers are the functions that an engine may call by itself, with their cron expressions.
var triggers = []struct{ function, expression string }{
	{"memory::consolidate", "0 */6 * * *"},
	{"memory::evict", "0 3 * * *"},
}

// A session is what goes over one connection.
type session struct {
	*worker
	conn   *websocket.Conn
	ending context.Context // over when the worker ends
	known  atomic.Bool     // the engine has given an ID
}

// send writes a frame.
func (s *session) send(ctx context.Context, f *frame) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return err
	}
	return retry.Within(ctx, writeTimeout, func(ctx context.Context) error {
		return s.conn.Write(ctx, websocket.MessageText, bytes.TrimSpace(b.Bytes()))
	})
}

// register says who the worker is, and what it has.
func (s *session) register(ctx context.Context) error {
	var all []*frame
	if s.id != "" {
		all = append(all, &frame{Type: typeReattach, PreviousWorkerID: s.id, ReattachToken: s.token})
	}
	for _, f := range functions.All() {
		all = append(all, &frame{Type: typeRegisterFunction, ID: f.Name, Description: f.Description})
	}
	if s.o.Cron {
		for _, t := range triggers {
			all = append(all, &frame{
				Type: typeRegisterTrigger, ID: s.o.Name + ":" + t.function, TriggerType: "cron", FunctionID: t.function,
				Config: map[string]any{"expression": t.expression}, Namespace: s.o.Namespace,
			})
		}
	}
	about, err := json.Marshal(s.about())
	if err != nil {
		return err
	}
	all = append(all, &frame{Type: typeInvokeFunction, FunctionID: registerWorker, Data: about, Action: &action{"void"}})
	for _, f := range all {
		if err := s.send(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// about is what the worker says about itself.
func (s *session) about() any {
	return struct {
		Runtime     string `json:"runtime"`
		Version     string `json:"version"`
		Name        string `json:"name"`
		OS          string `json:"os"`
		PID         int    `json:"pid,omitempty"`
		Isolation   any    `json:"isolation"`
		Namespace   string `json:"namespace,omitempty"`
		Description string `json:"description"`
	}{"go", s.o.Version, s.o.Name, runtime.GOOS + " (" + runtime.GOARCH + ")", s.o.PID, nil, s.o.Namespace, "Memory of agents in memdb"}
}

// look ends when the engine does not answer any more.
func (s *session) look(ctx context.Context) error {
	for {
		if err := retry.Sleep(ctx, pingEvery); err != nil {
			return err
		}
		if err := retry.Within(ctx, pongTimeout, s.conn.Ping); err != nil {
			return fmt.Errorf("the engine does not answer: %w", err)
		}
	}
}

// read takes frames until the connection ends.
func (s *session) read(ctx context.Context) error {
	for {
		kind, b, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		var f frame
		if kind != websocket.MessageText {
			continue
		}
		if err := json.Unmarshal(b, &f); err != nil {
			s.o.Logger.Warn("a frame of the engine is no JSON of a known form, and is passed over", "error", err)
			continue
		}
		if err := s.take(ctx, &f); err != nil {
			return err
		}
	}
}

// take does what a frame asks for. An error ends the connection.
func (s *session) take(ctx context.Context, f *frame) error {
	switch f.Type {
	case typeWorkerRegistered:
		s.id, s.token = f.WorkerID, f.ReattachToken
		s.known.Store(true)
		s.o.Logger.Info("connected to the engine", "engine", s.shown, "worker", s.id)
	case typeInvokeFunction:
		return s.invoke(ctx, f)
	case typePing:
		return s.send(ctx, &frame{Type: typePong})
	case typeTriggerResult:
		if f.Error != nil {
			s.o.Logger.Error("the engine has refused a trigger", "trigger", f.ID, "code", f.Error.Code, "error", f.Error.Message)
		}
	case typeRegistrationRejected:
		if f.Code == codeWorkerConflict {
			return fmt.Errorf("%w: %q, whose worker is %s; end that one, or give another name or namespace", ErrConflict, f.WorkerName, f.OwnerWorkerID)
		}
		s.o.Logger.Error("the engine has refused a function, which another worker has", "function", f.FunctionID, "code", f.Code, "worker", f.OwnerWorkerID)
	}
	return nil
}

// invoke begins an invocation, once there is room for it.
func (s *session) invoke(ctx context.Context, f *frame) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() {
		defer func() { <-s.slots }()
		answer := s.answer(f)
		if f.InvocationID == "" || f.Action != nil && f.Action.Type == "void" {
			if answer.Error != nil {
				s.o.Logger.Warn("an invocation that waits for no answer has failed", "function", f.FunctionID, "code", answer.Error.Code, "error", answer.Error.Message)
			}
			return
		}
		if err := s.send(ctx, answer); err != nil {
			s.o.Logger.Warn("an answer could not be sent", "function", f.FunctionID, "error", err)
		}
	}()
	return nil
}

// bounded calls the function of an invocation within the bounds of a request over HTTP.
func (s *session) bounded(ctx context.Context, f *frame) (any, error) {
	if err := server.CheckJSON(f.Data); err != nil {
		return nil, err
	}
	return s.o.Functions.Invoke(server.Bounded(ctx), s.call, f.FunctionID, f.Data)
}

// answer calls the function of an invocation. What it does goes on when the connection ends.
func (s *session) answer(f *frame) *frame {
	out := &frame{Type: typeInvocationResult, InvocationID: f.InvocationID, FunctionID: f.FunctionID}
	if s.ending.Err() != nil {
		out.Error = &errorBody{functions.CodeFailed, "the worker ends; call again"}
		return out
	}
	ctx, cancel := context.WithTimeout(s.life, s.o.Timeout)
	defer cancel()
	var result any
	var err error
	if p := panics.Catch("calls "+f.FunctionID, func() { result, err = s.bounded(ctx, f) }); p != nil {
		err = p
	}
	if err == nil {
		out.Result, err = json.Marshal(result)
	}
	if err != nil {
		told := server.Fault(err)
		if told.Status >= 500 {
			s.o.Logger.Error("a function has failed", "function", f.FunctionID, "error", err)
		}
		out.Error = &errorBody{functions.Code(err), told.Message}
		if out.Error.Code == functions.CodeNotFound {
			out.Error.Message = "Function not found"
		}
	}
	return out
}
