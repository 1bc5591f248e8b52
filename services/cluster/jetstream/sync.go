package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// askedFor is how long servers may take to say how they write; the first answer is waited for longer.
const askedFor = 500 * time.Millisecond

// serverReply is what a server says of itself.
type serverReply struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Data struct {
		Config struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
	} `json:"data"`
}

// askSync asks all servers whether they sync each write, and refuses them where one does not.
func (o *Options) askSync(ctx context.Context) error {
	if o.Insecure {
		return nil
	}
	if o.SystemURL == "" {
		return mismatch("whether the servers sync each write cannot be asked without a user of their system account", "give one, or take the servers as they are with --insecure")
	}
	nc, err := dial(*o, o.SystemURL)
	if err != nil {
		return fault.Within("ask how the servers write", err)
	}
	defer nc.Close()
	inbox := nats.NewInbox()
	replies, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fault.Within(doingConnect, err)
	}
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, nil); err != nil {
		return fault.Within(doingConnect, err)
	}
	for wait, n := setUpWait, 0; ; wait, n = askedFor, n+1 {
		var m *nats.Msg
		err := retry.Within(ctx, wait, func(ctx context.Context) (err error) {
			m, err = replies.NextMsgWithContext(ctx)
			return err
		})
		if err != nil && n > 0 {
			return ctx.Err()
		}
		var r serverReply
		if err == nil {
			err = json.Unmarshal(m.Data, &r)
		}
		switch {
		case errors.Is(err, nats.ErrPermissionViolation):
			return fault.Within(doingConnect, err)
		case err != nil:
			return known(err)
		case !r.Data.Config.SyncAlways:
			return mismatch(fmt.Sprintf("the server %s does not sync each write: a power cut takes back what was acknowledged", r.Server.Name), "set sync_interval: always in jetstream of its configuration; or take it as it is with --insecure")
		}
	}
}
