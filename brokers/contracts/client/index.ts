export { BrokerError, type BrokerOptions, brokerClient } from './broker.ts';
export { createTransport, type TransportOptions } from './transport.ts';
export { understand } from './understand.ts';
