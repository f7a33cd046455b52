// A client without retrybudget: makes one call with the retries of grpc-js and
// prints how it ended.
//
// node client.js '{"target": …, "method": …, "stream": …, "backoff": …, "deadline": …}'
'use strict';

const grpc = require('@grpc/grpc-js');

const call = JSON.parse(process.argv[2]);

const serviceConfig = {
  methodConfig: [{
    name: [{}],
    retryPolicy: {
      maxAttempts: 3,
      initialBackoff: call.backoff,
      maxBackoff: call.backoff,
      backoffMultiplier: 1,
      retryableStatusCodes: ['UNAVAILABLE'],
    },
  }],
};

const client = new grpc.Client(call.target, grpc.credentials.createInsecure(), {
  'grpc.service_config': JSON.stringify(serviceConfig),
});

// Requests and replies are google.protobuf.Empty, which is no bytes at all.
const encode = () => Buffer.alloc(0);
const decode = () => ({});

function end(status) {
  console.log(JSON.stringify({ code: status.code, details: status.details }));
  client.close();
}

const options = { deadline: Date.now() + call.deadline };
if (call.stream) {
  const stream = client.makeServerStreamRequest(call.method, encode, decode, {}, new grpc.Metadata(), options);
  stream.on('data', () => {});
  stream.on('error', () => {}); // the status says the same
  stream.on('status', end);
} else {
  client.makeUnaryRequest(call.method, encode, decode, {}, new grpc.Metadata(), options, () => {}).on('status', end);
}
