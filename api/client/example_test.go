package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/api/client"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// serve is the address of a memdbd.
func serve() (address string, end func(), err error) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		return "", nil, err
	}
	s := server.New(db, server.Options{})
	s.Mount(native.New())
	h := httptest.NewServer(s.Handler())
	return h.URL, func() { h.Close(); _ = db.Close() }, nil
}

// A program stores values under keys of an agent, lists them, and finds that one is not there.
func Example() {
	address, end, err := serve()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	ctx := context.Background()
	c, err := client.New(address, &client.Options{Key: "the key of the server"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	owner := api.Owner{Agent: "researcher"}
	for key, value := range map[string]string{"page": "4", "done": "true"} {
		put := &api.KVPutRequest{Owner: owner, Key: key, Value: json.RawMessage(value)}
		if _, err := client.Do(ctx, c, api.KVPut, put, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	last, err := client.List(ctx, c, api.KVList, &api.KVListRequest{Owner: owner}, nil, func(e entries.Line) error {
		fmt.Println(e.Key, string(e.Value))
		return nil
	})
	fmt.Println("more:", last.Next != "", err)
	_, err = client.Do(ctx, c, api.KVGet, &api.KVKey{Owner: owner, Key: "title"}, nil)
	fmt.Println(errors.Is(err, memory.ErrNotFound), err)
	// Output:
	// done true
	// page 4
	// more: false <nil>
	// true get the entry "title": its owner has none under this key; check the key and the owner
}
