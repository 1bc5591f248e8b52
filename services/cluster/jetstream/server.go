package jetstream

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// ServerOptions are those of a server within a process.
type ServerOptions struct {
	// Name is that of the server, Dir the folder of what it keeps.
	Name, Dir string
	// Listen is the address for clients, HOST:PORT; ClusterListen the one for the other servers, which are Routes,
	// addresses likewise. Without Routes it is alone.
	Listen, ClusterListen string
	Routes                []string
	// Password is that of the users memdb, who has the streams, and memdb-system, who may ask how the servers
	// write. It has letters and digits alone.
	Password string
	// SyncSeldom leaves writes to the system, as servers do unless they are told otherwise: to show what it costs.
	SyncSeldom bool
	// LogFile is where the server writes what it does; empty: nowhere.
	LogFile string
}

// The users of a server, and the name of its cluster.
const (
	User        = "memdb"
	SystemUser  = "memdb-system"
	clusterName = "memdb"
	readyWait   = 10 * time.Second
)

// URLs are those by which [Connect] reaches servers at addresses: of the user and of the system's user.
func URLs(password string, addresses ...string) (user, system string) {
	of := func(name string) string {
		all := make([]string, len(addresses))
		for i, a := range addresses {
			all[i] = (&url.URL{Scheme: "nats", User: url.UserPassword(name, password), Host: a}).String()
		}
		return strings.Join(all, ",")
	}
	return of(User), of(SystemUser)
}

// config is the configuration of the server.
func (o *ServerOptions) config() string {
	var b strings.Builder
	q := strconv.Quote
	fmt.Fprintf(&b, "server_name: %s\nlisten: %s\nmax_payload: 2MB\n", q(o.Name), q(o.Listen))
	sync := "always"
	if o.SyncSeldom {
		sync = "2m"
	}
	fmt.Fprintf(&b, "jetstream { store_dir: %s, sync_interval: %s }\n", q(o.Dir), q(sync))
	fmt.Fprintf(&b, "accounts {\n  MEMDB { jetstream: enabled, users: [ { user: %s, password: %s } ] }\n  SYS { users: [ { user: %s, password: %s } ] }\n}\nsystem_account: SYS\n",
		q(User), q(o.Password), q(SystemUser), q(o.Password))
	if len(o.Routes) > 0 {
		fmt.Fprintf(&b, "cluster {\n  name: %s\n  listen: %s\n  routes: [\n", clusterName, q(o.ClusterListen))
		for _, r := range o.Routes {
			fmt.Fprintf(&b, "    %s\n", q("nats://"+r))
		}
		b.WriteString("  ]\n}\n")
	}
	if o.LogFile != "" {
		fmt.Fprintf(&b, "log_file: %s\n", q(o.LogFile))
	}
	return b.String()
}

// Serve runs a server until ctx ends.
func Serve(ctx context.Context, o ServerOptions) error {
	stop, err := Start(o)
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	return nil
}

// Start starts a server, and returns once it takes clients. stop ends it, and waits for that.
func Start(o ServerOptions) (stop func(), err error) {
	doing := "start the server " + o.Name
	opts := &server.Options{NoSigs: true}
	if err := opts.ProcessConfigString(o.config()); err != nil {
		return nil, fault.Invalid(doing, err.Error(), "look at its names and addresses")
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrFailed, What: doing, Cause: err}
	}
	if o.LogFile != "" {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(readyWait) {
		s.Shutdown()
		return nil, &fault.Error{Kind: fault.ErrFailed, What: doing, Why: "it takes no clients", Do: "see what else listens at " + o.Listen}
	}
	return func() {
		s.Shutdown()
		s.WaitForShutdown()
	}, nil
}
