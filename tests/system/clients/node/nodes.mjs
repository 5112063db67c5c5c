// Google's own Node client, as anybody would write it.
//
// Usage: node nodes.mjs PORT PARENT; one line of JSON per step on stdout.

import {createRequire} from 'node:module';

const {v2, v2alpha1} = createRequire(import.meta.url)('@google-cloud/tpu');
const {GrpcClient} = createRequire(import.meta.url)('google-gax');

const [port, parent] = process.argv.slice(2);
const options = {
  apiEndpoint: '127.0.0.1',
  port: Number(port),
  sslCreds: new GrpcClient().grpc.credentials.createInsecure(),
};

function tell(step, value) {
  process.stdout.write(`${JSON.stringify({step, value})}\n`);
}

async function roundTrip(version, client, nodeId) {
  const node = {acceleratorType: 'v5litepod-16', runtimeVersion: 'v2-alpha-tpuv5-lite'};
  const name = `${parent}/nodes/${nodeId}`;
  const [creating] = await client.createNode({parent, nodeId, node});
  const [made] = await creating.promise();
  tell(`${version} create`, [made.name, made.state, made.networkEndpoints.length]);
  const [listed] = await client.listNodes({parent});
  tell(`${version} list`, listed.map(each => each.name));
  const [got] = await client.getNode({name});
  tell(`${version} get`, [got.acceleratorType, got.acceleratorConfig.topology]);
  const [deleting] = await client.deleteNode({name});
  await deleting.promise();
  try {
    await client.getNode({name});
  } catch (error) {
    tell(`${version} gone`, error.code);
  }
  await client.close();
}

await roundTrip('v2', new v2.TpuClient(options), 'n2');
await roundTrip('v2alpha1', new v2alpha1.TpuClient(options), 'n2a');
