package retrybudget_test

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// Logs go to slog through go-grpc-middleware's adapter, which takes three lines.
// The budget is empty, so the retry is refused.
func ExampleNewLoggingObserver() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutPlace}))

	adapter := logging.LoggerFunc(func(ctx context.Context, level logging.Level, text string, fields ...any) {
		logger.Log(ctx, slog.Level(level), text, fields...)
	})
	r, err := retrybudget.New(retrybudget.WithObserver(retrybudget.NewLoggingObserver(adapter)))
	if err != nil {
		log.Fatal(err)
	}

	target, stop := startInventory(1)
	conn, err := grpc.NewClient(target, append(r.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	defer conn.Close()
	_, _ = quickstartv1.NewInventoryServiceClient(conn).GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	// Output:
	// level=WARN msg="retry refused" grpc.service=retrybudget.quickstart.v1.InventoryService grpc.method=GetStock retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=budget
}

// withoutPlace leaves out what differs from run to run: time and port.
func withoutPlace(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "retrybudget.target" {
		return slog.Attr{}
	}
	return a
}
