package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// mesh is one strategy's own services, joined by loopback TCP: a driver that
// calls A, which calls the instances of B in turn, each of which calls C.
type mesh struct {
	strategy strategy
	timeouts [edges]time.Duration // attempt timeouts, from the driver's on; 0 for none

	driver    quickstartv1.InventoryServiceClient
	clients   [edges][]client // the retrying processes of each edge
	a, c      loopback.Counter
	b         [instances]loopback.Counter
	backend   *backend.Service
	firstLink link // from the first B to C

	servers []*grpc.Server
	conns   []*grpc.ClientConn
}

// newMesh starts the services and connects them, and waits until every
// connection stands.
func newMesh(ctx context.Context, c config, s strategy, timeouts [edges]time.Duration, calls int) (*mesh, error) {
	m := &mesh{strategy: s, timeouts: timeouts, backend: backend.NewService(backend.Config{
		Seed: c.Seed, Workers: c.Workers, ServiceTime: c.ServiceTime, Calls: calls,
	})}
	if err := m.build(ctx); err != nil {
		m.close()
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return m, nil
}

// build goes from C to the driver, because who calls must know where to.
func (m *mesh) build(ctx context.Context) error {
	atC, err := m.serve(m.backend, &m.c)
	if err != nil {
		return err
	}
	var state resolver.State
	for i := range m.b {
		link := &link{}
		if i == 0 {
			link = &m.firstLink
		}
		next, err := m.connect(ctx, 2, atC, grpc.WithContextDialer(link.dial))
		if err != nil {
			return err
		}
		atB, err := m.serve(&relay{next: next}, &m.b[i], m.strategy.server()...)
		if err != nil {
			return err
		}
		state.Addresses = append(state.Addresses, resolver.Address{Addr: atB})
	}
	addresses := manual.NewBuilderWithScheme("mesh")
	addresses.InitialState(state)
	next, err := m.connect(ctx, 1, "mesh:///b", grpc.WithResolvers(addresses),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	if err != nil {
		return err
	}
	atA, err := m.serve(&relay{next: next}, &m.a, m.strategy.server()...)
	if err != nil {
		return err
	}
	m.driver, err = m.connect(ctx, 0, atA)
	return err
}

// serve starts a server on a free port and returns its address.
func (m *mesh) serve(service quickstartv1.InventoryServiceServer, n *loopback.Counter, more ...grpc.ServerOption) (string, error) {
	server, address, err := loopback.Serve(service, n, more...)
	if err != nil {
		return "", err
	}
	m.servers = append(m.servers, server)
	return address, nil
}

// connect makes a process the client of an edge.
func (m *mesh) connect(ctx context.Context, edge int, target string, more ...grpc.DialOption) (quickstartv1.InventoryServiceClient, error) {
	client, err := m.strategy.client(m.timeouts[edge])
	if err != nil {
		return nil, err
	}
	conn, err := loopback.Connect(ctx, target, slices.Concat(client.options, more)...)
	if err != nil {
		return nil, err
	}
	m.conns = append(m.conns, conn)
	m.clients[edge] = append(m.clients[edge], client)
	return quickstartv1.NewInventoryServiceClient(conn), nil
}

// enter puts the mesh into the condition of a phase.
func (m *mesh) enter(p phase) {
	m.backend.Enter(backend.Condition{Workers: p.Capacity, Errors: p.Errors})
	m.firstLink.set(p.Sick)
}

// funds are the tokens of one process of each edge, on average. The second
// value is false where the strategy has no budgets.
func (m *mesh) funds() (tokens [edges]float64, ok bool) {
	for edge, clients := range m.clients {
		for _, c := range clients {
			if c.retrier == nil {
				return tokens, false
			}
			for b := range c.retrier.Budgets() {
				tokens[edge] += b.Tokens / float64(len(clients))
			}
		}
	}
	return tokens, true
}

func (m *mesh) close() {
	for _, conn := range m.conns {
		conn.Close()
	}
	m.backend.Close()
	for _, server := range m.servers {
		server.Stop()
	}
}
