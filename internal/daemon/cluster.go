package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/host"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/metrics"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// ClusterOptions are what a backend is reached by.
type ClusterOptions struct {
	// URL is that of its servers, with commas between them, and SystemURL the same for a user who may
	// ask how they write; empty: nobody asks.
	URL, SystemURL string
	// Credentials, CA, Cert and Key are files: who this is, whom it trusts, and how it proves itself
	// over TLS. Empty: there is none.
	Credentials, CA, Cert, Key string
	// Insecure takes a backend that keeps less than it should: fewer copies, or synced late.
	Insecure bool
	Logger   *slog.Logger
}

// Clustering is what the program needs to be a node of a cluster: it is linked into the memdbd of a
// module of its own, with the client of what holds the logs.
type Clustering struct {
	// Connect reaches a backend, which the caller closes.
	Connect func(ctx context.Context, o ClusterOptions) (cluster.Backend, error)
	// Dev runs a whole cluster on this machine, in processes of their own, until ctx ends.
	Dev func(ctx context.Context, d Dev) error
}

// Variables are the environment by which a node or a command about keys finds the logs.
func Variables(url, system string) []string {
	return []string{clusterVariable + "=" + url, systemVariable + "=" + system}
}

// Dev is what a cluster on one machine is started with.
type Dev struct {
	// Dir is the folder of everything.
	Dir string
	// Listen is the address of the first node; the others listen on the ports behind it.
	Listen string
	// Out hears what runs.
	Out io.Writer
}

// clusterFlags are those of a node.
type clusterFlags struct {
	url, system, node, address, credentials, ca, cert, key string
	shards                                                 int
	insecure, standby                                      bool
}

const (
	// devCluster stands in the place of an address: all on this machine.
	devCluster = "dev"
	// mostMemory bounds the caches of all shards of a node, in bytes.
	mostMemory = 8 << 30
	// shardsDir is the folder of the shards in that of a node.
	shardsDir = "shards"
)

// isNode reports whether a folder is that of a node.
func isNode(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, shardsDir))
	return err == nil && info.IsDir()
}

// clusterFlags adds those of a node.
func (p *program) clusterFlags(f *pflag.FlagSet) {
	c := &p.o.cluster
	p.logFlags(f)
	f.Lookup("cluster").Usage = "be a node of a cluster whose logs are at `URL`, as nats://HOST:4222; or dev: run a whole one on this machine (default $MEMDB_CLUSTER)"
	f.Lookup("insecure").Usage = "take logs that keep fewer than three copies, or sync late: what is acknowledged can be lost; and ask other nodes over plain HTTP, which who is on the network can read"
	f.StringVar(&c.node, "node", "", "the `NAME` of the node, which it keeps")
	f.StringVar(&c.address, "address", "", "where other nodes reach it, as https://HOST:7070 (default the address it listens on)")
	f.IntVar(&c.shards, "shards", 0, "how many shards a new cluster gets, fixed then (default 64)")
	f.BoolVar(&c.standby, "standby", false, "follow the shards of other nodes, so that the node takes them over sooner")
}

// The variables that name the logs where no flag does: a URL has a password, which every user of the machine could read
// in a command line.
const (
	clusterVariable = "MEMDB_CLUSTER"
	systemVariable  = "MEMDB_CLUSTER_SYSTEM"
)

// fromEnvironment names the logs by the variables, where no flag does.
func (p *program) fromEnvironment() {
	c := &p.o.cluster
	for _, of := range []struct {
		to   *string
		name string
	}{{&c.url, clusterVariable}, {&c.system, systemVariable}} {
		if value, ok := p.getenv(of.name); ok && *of.to == "" && c.url != devCluster {
			*of.to = value
		} else if secretIn(*of.to) {
			p.shown = of.name
		}
	}
}

// secretIn reports whether one of some URLs has a password.
func secretIn(urls string) bool {
	for text := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			if _, has := u.User.Password(); has {
				return true
			}
		}
	}
	return false
}

// logFlags adds those by which the logs of a cluster are reached.
func (p *program) logFlags(f *pflag.FlagSet) {
	c := &p.o.cluster
	f.StringVar(&c.url, "cluster", "", "the cluster whose logs are at `URL`, as nats://HOST:4222 (default $MEMDB_CLUSTER, which no other user can read)")
	f.StringVar(&c.system, "cluster-system", "", "the `URL` with a user of the system account, who may ask how the servers write (default $MEMDB_CLUSTER_SYSTEM, then that of --cluster)")
	f.StringVar(&c.credentials, "cluster-creds", "", "the credentials for the logs, a `FILE`")
	f.StringVar(&c.ca, "cluster-ca", "", "trust servers of the logs with a certificate of this authority, a `FILE` in PEM")
	f.StringVar(&c.cert, "cluster-cert", "", "the own certificate for the logs, a `FILE` in PEM")
	f.StringVar(&c.key, "cluster-key", "", "its key, a `FILE` in PEM")
	f.BoolVar(&c.insecure, "insecure", false, "take logs that keep fewer than three copies, or sync late: what is acknowledged can be lost")
}

// logs is how the logs are reached.
func (f *clusterFlags) logs(log *slog.Logger) ClusterOptions {
	return ClusterOptions{URL: f.url, SystemURL: f.system, Credentials: f.credentials, CA: f.ca, Cert: f.cert, Key: f.key, Insecure: f.insecure, Logger: log}
}

// checkLogs refuses a program that cannot reach the logs of a cluster.
func (p *program) checkLogs() error {
	if p.clustering == nil {
		return usageError{errors.New("this memdbd is built without a client of NATS; build the one with it: go -C services/cluster/jetstream build ./cmd/memdbd")}
	}
	return nil
}

// checkCluster refuses flags of a cluster that cannot be.
func (p *program) checkCluster(s *config.Server) error {
	f := &p.o.cluster
	wrong := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	if f.url == "" {
		if f.node != "" || f.address != "" || f.shards != 0 || f.insecure || f.standby || f.credentials != "" || f.ca != "" {
			return wrong("--node and what belongs to it are for --cluster")
		}
		return nil
	}
	if err := p.checkLogs(); err != nil {
		return err
	}
	if f.url == devCluster {
		return nil
	}
	if err := cluster.CheckName(f.node); err != nil {
		return usageError{errors.Join(errors.New("give the node a name that it keeps: --node NAME"), err)}
	}
	host, _, _ := net.SplitHostPort(s.Listen)
	if ip := net.ParseIP(host); f.address == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return wrong("--listen %s says not where other nodes reach this one; say so with --address http://HOST:PORT", s.Listen)
	}
	if f.address != "" && !strings.HasPrefix(f.address, "http://") && !strings.HasPrefix(f.address, "https://") {
		return wrong("--address %q: give http://HOST:PORT or https://HOST:PORT", f.address)
	}
	reached := f.address
	if reached == "" && s.TLSCert == "" {
		reached = "http://" + s.Listen
	}
	if beside.Plain(reached) && !f.insecure {
		return wrong("other nodes would ask this one at %s without encryption; give --tls-cert and --tls-key, and an --address of https://, or take it as it is with --insecure", reached)
	}
	if s.III != nil && s.III.URL != "" {
		return wrong("a node of a cluster is no worker of an iii engine; run one beside it")
	}
	return nil
}

// serveCluster is a node of a cluster until the context ends.
func (p *program) serveCluster(ctx context.Context, c *config.Config, s *config.Server, log *slog.Logger, l net.Listener, encrypted *tls.Config) (err error) {
	if there, err := engine.Exists(p.dir); err != nil {
		return err
	} else if there {
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "run a node in " + p.dir, Why: "the folder is a database of its own",
			Do: "give the node another folder with --db, and bring the database in: memdbctl export | memdbctl cluster import",
		}
	}
	if err := os.MkdirAll(filepath.Join(p.dir, shardsDir), 0o700); err != nil {
		return &memory.Error{Kind: memory.ErrFailed, What: "make the folder of the node", Cause: err}
	}
	f := &p.o.cluster
	if old := filepath.Join(p.dir, apikeys.OldFile); fileThere(old) {
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "run a node in " + p.dir, Why: "it has a file of keys, and the keys of a cluster are stored with its logs",
			Do: "import them with memdbd key import " + old + " --cluster URL, and remove the file",
		}
	}
	if p.shown != "" {
		log.Warn("every user of this machine can read the password in the command line: set the variable instead of the flag", "variable", p.shown)
	}
	backend, err := p.connect(ctx, f.logs(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	keys, err := cluster.OpenKeys(ctx, backend, cluster.KeysOptions{Logger: log})
	if err != nil {
		return err
	}
	services, err := c.Open(p.getenv, true)
	if err != nil {
		return err
	}
	address := cmp.Or(f.address, addressOf(l, encrypted))
	options := p.engineOptions(c, s, services, log)
	options.MemoryBudget = min(host.Memory()/4, mostMemory)
	node, err := cluster.Join(ctx, cluster.NodeOptions{
		Backend: backend, Name: f.node, Address: address, Dir: filepath.Join(p.dir, shardsDir), Shards: f.shards, Standby: f.standby,
		Engine: *options, Logger: log,
	})
	if err != nil {
		return err
	}
	roots, err := trusted(s)
	if err != nil {
		return err
	}
	t := &tenants{node: node, client: between(roots, f.insecure), insecure: f.insecure, roots: roots, services: services, log: log}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	nodeEnded := make(chan error, 1)
	go func() { nodeEnded <- node.Run(running) }()
	var following sync.WaitGroup
	following.Go(func() { keys.Follow(running) })
	err = p.answerCluster(ctx, l, t, keys, s, encrypted)
	stop()
	err = errors.Join(err, <-nodeEnded)
	following.Wait()
	if err == nil {
		log.Info("the server has ended")
	}
	return err
}

// connect reaches the backend, and tries until the context ends where it does not answer: the machines
// of a cluster start in any order.
func (p *program) connect(ctx context.Context, o ClusterOptions) (cluster.Backend, error) {
	for {
		b, err := p.clustering.Connect(ctx, o)
		if err == nil || !errors.Is(err, cluster.ErrUnavailable) || ctx.Err() != nil {
			return b, err
		}
		o.Logger.Warn("what holds the logs is not reached, and is tried again", "error", err)
		if err := retry.Sleep(ctx, connectPause); err != nil {
			return nil, err
		}
	}
}

// connectPause is the pause before a backend is tried again.
const connectPause = time.Second

// addressOf is the address of a listener.
func addressOf(l net.Listener, encrypted *tls.Config) string {
	if encrypted != nil {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// trusted are the certificates that nodes trust of each other: those of the system, and the one that
// they serve with.
func trusted(s *config.Server) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCert == "" {
		return c, nil
	}
	pem, err := os.ReadFile(s.TLSCert)
	if err != nil {
		return nil, &memory.Error{Kind: memory.ErrFailed, What: "read the certificate " + s.TLSCert, Cause: err}
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	c.RootCAs.AppendCertsFromPEM(pem)
	return c, nil
}

// checkPlain refuses to ask a node whose address is plain.
func checkPlain(address string, insecure bool) error {
	if insecure || !beside.Plain(address) {
		return nil
	}
	return &memory.Error{
		Kind: memory.ErrInvalid, What: "ask the node at " + address, Why: "it would go over the network without encryption",
		Do: "start that node with --tls-cert, --tls-key and an --address of https://, or this one with --insecure",
	}
}

// encrypting asks no node over plain HTTP.
type encrypting struct{ to http.RoundTripper }

func (e encrypting) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkPlain(r.URL.Scheme+"://"+r.URL.Host, false); err != nil {
		return nil, err
	}
	return e.to.RoundTrip(r)
}

// between is how nodes ask each other.
func between(roots *tls.Config, insecure bool) *http.Client {
	var transport http.RoundTripper = &http.Transport{
		TLSClientConfig: roots, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
	}
	if !insecure {
		transport = encrypting{transport}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answerCluster serves the dialects from the shards.
func (p *program) answerCluster(ctx context.Context, l net.Listener, t *tenants, of *cluster.Keys, s *config.Server, encrypted *tls.Config) error {
	o := p.serverOptions(s, apikeys.Open(of, p.now), t.log, encrypted)
	o.Shards = t
	srv := server.New(nil, o)
	srv.Mount((&clusterRoutes{node: t.node, server: srv}).dialect())
	verbs := &clusterVerbs{t: t, server: srv, roots: t.roots, of: verbSettings{s.Files, p.models, t.log}}
	defer verbs.running.Wait()
	p.mount(srv, s, verbs.dialect())
	address := addressOf(l, encrypted)
	told := map[string]string{"listening": address, "db": p.dir, "node": t.node.Name(), "cluster": t.node.Facts().ID}
	if err := p.print(told, "memdbd serves the cluster %s as %s at %s\n", t.node.Facts().ID, t.node.Name(), address); err != nil {
		return err
	}
	if p.listening != nil {
		p.listening(address)
	}
	return srv.Serve(ctx, l)
}

// tenants are the shards of a node as the server has them.
type tenants struct {
	node     *cluster.Node
	client   *http.Client
	insecure bool // other nodes are asked over plain HTTP, too
	roots    *tls.Config
	services *config.Services
	log      *slog.Logger

	mu   sync.Mutex
	held map[int]server.Tenant
}

func (t *tenants) Count() int           { return t.node.Facts().Shards }
func (t *tenants) Of(o scope.Owner) int { return cluster.ShardOf(o, t.node.Facts().Shards) }
func (t *tenants) Secret() []byte       { return t.node.Facts().Secret }
func (t *tenants) Client() *http.Client { return t.client }
func (t *tenants) Writable() error      { return t.node.Writable() }

func (t *tenants) Where(ctx context.Context, shard int, anew bool) (string, error) {
	address, err := t.node.Where(ctx, shard, anew)
	if err != nil {
		return "", err
	}
	return address, checkPlain(address, t.insecure)
}

// Use is a shard of this node.
func (t *tenants) Use(ctx context.Context, shard int) (server.Tenant, func(), error) {
	db, done, err := t.node.Use(ctx, shard)
	if err != nil {
		return server.Tenant{}, nil, err
	}
	of, err := t.tenant(shard, db)
	if err != nil {
		done()
	}
	return of, done, err
}

// Stale is a shard of this node while the logs do not answer.
func (t *tenants) Stale(ctx context.Context, shard int) (server.Tenant, time.Duration, func(), error) {
	db, age, done, err := t.node.UseStale(ctx, shard)
	if err != nil {
		return server.Tenant{}, 0, nil, err
	}
	of, err := t.tenant(shard, db)
	if err != nil {
		done()
	}
	return of, age, done, err
}

// tenant is a shard with its memory of facts, which is made for each opening.
func (t *tenants) tenant(shard int, db *engine.DB) (server.Tenant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept := t.held[shard]; kept.DB == db {
		return kept, nil
	}
	f, err := facts.New(&facts.Config{
		ForClients: true,
		DB:         db, LLM: t.services.LLM, Embedder: t.services.Engine, Graph: t.services.Graph, GraphStore: t.services.GraphStore,
		ExactScope: t.services.ExactScope, Prompts: facts.Prompts(t.services.Prompts), Version: facts.Version(t.services.Version), Logger: t.log,
	})
	if err != nil {
		return server.Tenant{}, err
	}
	if t.held == nil {
		t.held = map[int]server.Tenant{}
	}
	t.held[shard] = server.Tenant{DB: db, Facts: f}
	return t.held[shard], nil
}

// Metrics are those of the shards of this node.
func (t *tenants) Metrics(w io.Writer) error {
	all := map[int]metrics.Shard{}
	for shard, s := range t.node.Here() {
		all[shard] = metrics.Shard{Epoch: s.Epoch, LSN: s.LSN, LagMS: s.LagMS, Unsent: s.Unsent, Published: s.Published}
	}
	free, reserve := t.node.Disk()
	return errors.Join(metrics.WriteShards(w, all), metrics.WriteDisk(w, free, reserve))
}

// sortMembers puts nodes in the order of their names.
func sortMembers(all []cluster.Member) {
	slices.SortFunc(all, func(a, b cluster.Member) int { return strings.Compare(a.Name, b.Name) })
}
