package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// BasePath is the path below which a server has the routes of operations.
const BasePath = "/memdb/v1"

// The headers of requests and replies.
const (
	// IdempotencyHeader has the ID of a request that changes something. A client that sends the
	// request again with the same ID gets the answer of the first time, and nothing is changed.
	IdempotencyHeader = "Idempotency-Key"
	// RepeatedHeader is on such an answer.
	RepeatedHeader = "Idempotent-Replayed"
	// UnreadableHeader is on an answer of a damaged database: how many damages of it are known. The
	// answer may be incomplete. Where the damage is met after a stream has begun, it is a trailer.
	UnreadableHeader = "Memdb-Unreadable"
	// StaleHeader is on an answer of a node that cannot ask whether it owns the shard still: for how long it
	// may not have, in milliseconds. Without it an answer is the newest.
	StaleHeader = "Memdb-Stale-Ms"
	// ReplyTrailer is behind the body of a Stream: what its Run returned, as JSON.
	ReplyTrailer = "Memdb-Reply"
)

// A ListEnd says how a list ended. It is the last line of JSON lines, and stands beside the items of a JSON object.
type ListEnd struct {
	// End is true in the last line of JSON lines, and left out of a JSON object.
	End bool `json:"end,omitempty"`
	// Count is the number of items.
	Count int `json:"count"`
	// Next is the value of after for the next page. It is empty if no page follows.
	Next string `json:"next,omitempty"`
	// Unreadable is the number of damaged records, which the list leaves out.
	Unreadable int `json:"unreadable,omitempty"`
	// Limit is the limit that ended a query of the graph early.
	Limit string `json:"limit,omitempty"`
	// Entities and Relations are how much such a query had read by then.
	Entities  int `json:"entities,omitempty"`
	Relations int `json:"relations,omitempty"`
}

// Faults are what the kinds of errors are in HTTP. The first one that an error is counts, and the first one of a code.
var Faults = []struct {
	Kind   error
	Status int
	Code   string
}{
	{memory.ErrScope, http.StatusBadRequest, "scope"},
	{memory.ErrInvalid, http.StatusBadRequest, "invalid"},
	{memory.ErrNotFound, http.StatusNotFound, "not_found"},
	{memory.ErrExists, http.StatusConflict, "exists"},
	{memory.ErrConflict, http.StatusConflict, "conflict"},
	{memory.ErrRequestID, http.StatusUnprocessableEntity, "request_id"},
	{memory.ErrAmbiguous, http.StatusConflict, "ambiguous"},
	{memory.ErrMismatch, http.StatusConflict, "mismatch"},
	{usage.ErrBudget, http.StatusConflict, "over_budget"},
	{memory.ErrUnknownAgent, http.StatusConflict, "unknown_agent"},
	{memory.ErrTxTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{memory.ErrNotRetained, http.StatusGone, "not_retained"},
	{memory.ErrFellBehind, http.StatusGone, "fell_behind"},
	{memory.ErrDiskFull, http.StatusInsufficientStorage, "disk_full"},
	{memory.ErrFull, http.StatusInsufficientStorage, "full"},
	{memory.ErrBusy, http.StatusServiceUnavailable, "busy"},
	{memory.ErrLocked, http.StatusServiceUnavailable, "locked"},
	{memory.ErrReadOnly, http.StatusServiceUnavailable, "read_only"},
	{memory.ErrNotOwner, http.StatusServiceUnavailable, "not_owner"},
	{memory.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{memory.ErrClosed, http.StatusServiceUnavailable, "closed"},
	{memory.ErrFailed, http.StatusServiceUnavailable, "failed"},
	{memory.ErrCorrupt, http.StatusInternalServerError, "damaged"},
	{memory.ErrEmbedder, http.StatusBadGateway, "embedder"},
	{memory.ErrSummarizer, http.StatusBadGateway, "summarizer"},
	{memory.ErrExtractor, http.StatusBadGateway, "extractor"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "deadline"},
	{context.Canceled, StatusClientGone, "cancelled"},
}

// StatusClientGone is the status of a request whose client left before the answer. Only the log has it.
const StatusClientGone = 499

// A Message is a request as HTTP has it.
type Message struct {
	// Method is the method of HTTP.
	Method string
	// Target is the path below BasePath and the query, escaped.
	Target string
	// Body is JSON. nil: there is none.
	Body []byte
}

// message writes the request of an operation.
func message(op *Operation, fields []Field, request any) (*Message, error) {
	method, path, routed := strings.Cut(op.Route, " ")
	if !routed {
		return nil, invalid(op.Doing, "the operation has no route", "")
	}
	m := &Message{Method: method}
	query := url.Values{}
	for i := range fields {
		f := &fields[i]
		if f.Place != InPath && f.Place != InQuery {
			continue
		}
		texts, err := f.texts(request)
		if err != nil {
			return nil, err
		}
		if f.Place == InQuery && len(texts) > 0 {
			query[f.Name] = texts
		} else if f.Place == InPath {
			if len(texts) == 0 {
				return nil, invalid(op.Doing, f.Help+" is empty", "")
			}
			path = strings.Replace(path, "{"+f.Name+"}", escapePart(texts[0]), 1)
		}
	}
	var none memory.Lack
	switch of := request.(type) {
	case Owned:
		none = memory.Lack{User: of.OwnerOf().NoUser, Agent: of.OwnerOf().NoAgent}
	case Scoped:
		none = of.ScopeOf().Lack
	}
	for name, lacks := range map[string]bool{"user": none.User, "agent": none.Agent} {
		if lacks && query[name] == nil {
			query[name] = []string{""}
		}
	}
	if m.Target = path; len(query) > 0 {
		m.Target += "?" + query.Encode()
	}
	var err error
	switch body := BodyOf(request).(type) {
	case nil:
	case *json.RawMessage:
		m.Body = *body
	case json.Marshaler:
		m.Body, err = body.MarshalJSON()
	default:
		object := map[string]json.RawMessage{}
		if err = keysOf(reflect.ValueOf(body).Elem(), object); err == nil {
			m.Body, err = compact(object)
		}
	}
	return m, err
}

// escapePart escapes a part of a path. "." and ".." would lead elsewhere.
func escapePart(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// texts are the values of the field of a request as a query has them: none where the field is left out. A field that is
// zero is left out, unless it means something else then.
func (f *Field) texts(request any) ([]string, error) {
	v := reflect.ValueOf(request).Elem().FieldByIndex(f.index)
	if f.Repeated {
		return v.Convert(reflect.TypeFor[[]string]()).Interface().([]string), nil
	}
	given := v.Kind() == reflect.Pointer && !v.IsNil()
	if given {
		v = v.Elem()
	} else if v.Kind() == reflect.Pointer {
		v = reflect.Zero(v.Type().Elem())
	}
	text, err := textOf(v)
	if err != nil {
		return nil, err
	}
	if v.IsZero() && !given && (f.Place == InPath || !f.Required) && (cmp.Or(f.Default, text) == text || f.min != "" && f.min != "0") {
		return nil, nil
	}
	return []string{text}, nil
}

// textOf writes a value as its Kind reads it.
func textOf(v reflect.Value) (string, error) {
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano), nil
	case policy.Span:
		return time.Duration(x).String(), nil
	case fmt.Stringer:
		return x.String(), nil
	case json.Marshaler:
		b, err := x.MarshalJSON()
		return string(b), err
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), nil
	case v.Kind() == reflect.Interface: // nil
		return "", nil
	}
	b, err := json.Marshal(v.Interface())
	return string(b), err
}

// keysOf writes the keys of a body and of its embedded structs. A key that is zero is left out, as null could mean
// something else.
func keysOf(v reflect.Value, object map[string]json.RawMessage) error {
	for field, of := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			if err := keysOf(of, object); err != nil {
				return err
			}
		case name != "" && (!of.IsZero() || field.Tag.Get("openapi") == "required"):
			value, err := compact(of.Interface())
			if err != nil {
				return err
			}
			object[name] = value
		}
	}
	return nil
}

// compact is a value as JSON, with <, > and & as they are.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
