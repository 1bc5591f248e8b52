package filter_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/filter"
)

func ExampleParse() {
	f, err := filter.Parse(context.Background(), []byte(`{"AND":[{"field":"priority","operator":"gte","value":3},{"NOT":{"field":"tag","op":"exists"}}]}`))
	fmt.Println(f, err)
	f, err = filter.Parse(context.Background(), []byte(`priority over 3`))
	fmt.Println(f, err)
	f, err = filter.Parse(context.Background(), []byte(`role = asistant`))
	fmt.Println(f, err)
	// Output:
	// priority >= 3 and not tag exists <nil>
	// <nil> read a filter: unknown operator "over"; use one of eq, ne, gt, gte, lt, lte, in, nin, contains, icontains, exists, prefix, regex
	// <nil> read a filter: there is no role "asistant"; use user, assistant, system or tool
}

func ExampleAnd() {
	f := filter.And(filter.Gte("priority", 3), filter.Or(filter.In("tag", "work", "at home"), filter.Not(filter.Prefix("text", "draft"))))
	fmt.Println(f)
	b, err := json.Marshal(f)
	fmt.Println(string(b), err)
	// Output:
	// priority >= 3 and (tag in (work, "at home") or not text prefix draft)
	// {"AND":[{"field":"priority","operator":"gte","value":3},{"OR":[{"field":"tag","operator":"in","value":["work","at home"]},{"NOT":{"field":"text","operator":"prefix","value":"draft"}}]}]} <nil>
}

// An owner is a pair of user and agent; the one of ada without an agent is chosen by
// an agent that is none.
func ExampleEq() {
	fmt.Println(filter.And(filter.Eq("user", "ada"), filter.Eq("agent", "")))
	// Output:
	// user = ada and agent = ""
}
