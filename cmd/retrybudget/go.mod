module github.com/retrybudget/retrybudget/cmd/retrybudget

go 1.26.0

replace (
	github.com/retrybudget/retrybudget => ../..
	github.com/retrybudget/retrybudget/config => ../../config
)

require (
	github.com/retrybudget/retrybudget v0.0.0
	github.com/retrybudget/retrybudget/config v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/grpc-ecosystem/go-grpc-middleware/v2 v2.3.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
