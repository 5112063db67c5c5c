// Google's client of Cloud Storage for Node.js, as anybody would write it.
//
// Usage: node bucket_stories.mjs [ENDPOINT], else STORAGE_EMULATOR_HOST; one line of JSON per story on stdout: name, "ok" or what went wrong.

import assert from 'node:assert';
import {randomBytes} from 'node:crypto';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const {Storage} = createRequire(`${process.cwd()}/`)('@google-cloud/storage');
const [apiEndpoint] = process.argv.slice(2);
const storage = new Storage({...(apiEndpoint && {apiEndpoint}), projectId: 'p'});
const bucket = storage.bucket('node-box');
const scratch = mkdtempSync(join(tmpdir(), 'node-storage-'));
process.on('exit', () => rmSync(scratch, {recursive: true, force: true}));
const awkward = ['a b/ü.txt', 'a b/#1?.txt', 'a b/100%2B+.txt'];

async function code(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  return undefined;
}

const stories = {
  async 'make, list and label a bucket'() {
    await bucket.create({location: 'us-west4'});
    assert.equal(await code(bucket.create()), 409);
    const [buckets] = await storage.getBuckets();
    assert(buckets.some(each => each.name === 'node-box'));
    await bucket.setLabels({team: 'vision'});
    const [labels] = await bucket.getLabels();
    assert.deepEqual(labels, {team: 'vision'});
  },
  async 'awkward names there and back'() {
    for (const name of awkward) await bucket.file(name).save(name, {resumable: false});
    for (const name of awkward) {
      const [body] = await bucket.file(name).download();
      assert.equal(body.toString(), name);
    }
    const [files] = await bucket.getFiles();
    assert.deepEqual(files.map(each => each.name).sort(), [...awkward].sort());
  },
  async 'a resumable upload in chunks, checked'() {
    const body = randomBytes(9_000_001);
    writeFileSync(join(scratch, 'large'), body);
    await bucket.upload(join(scratch, 'large'), {
      resumable: true, chunkSize: 1 << 20, validation: 'crc32c', destination: 'large',
    });
    await bucket.file('large').download({destination: join(scratch, 'back')});
    assert(readFileSync(join(scratch, 'back')).equals(body));
    const [part] = await bucket.file('large').download({start: 5, end: 9, validation: false});
    assert(part.equals(body.subarray(5, 10)));
  },
  async 'an empty object'() {
    await bucket.file('empty').save('');
    const [body] = await bucket.file('empty').download();
    assert.equal(body.length, 0);
  },
  async 'conditions: made once, deleted in the version seen'() {
    const once = bucket.file('once');
    const absent = {resumable: false, preconditionOpts: {ifGenerationMatch: 0}};
    await once.save('1', absent);
    assert.equal(await code(once.save('2', absent)), 412);
    assert.equal(await code(once.delete({ifGenerationMatch: 1})), 412);
    await once.delete({ifGenerationMatch: once.metadata.generation});
    assert.equal(await code(once.getMetadata()), 404);
  },
  async 'pages, prefix and delimiter'() {
    for (const name of ['d/1', 'd/2', 'e/1']) await bucket.file(name).save('x', {resumable: false});
    const [first, next] = await bucket.getFiles({prefix: 'd/', maxResults: 1, autoPaginate: false});
    const [second] = await bucket.getFiles(next);
    assert.deepEqual([first[0].name, second[0].name], ['d/1', 'd/2']);
    const [, , answer] = await bucket.getFiles({delimiter: '/', autoPaginate: false});
    assert.deepEqual(answer.prefixes, ['a b/', 'd/', 'e/']);
  },
  async 'metadata'() {
    await bucket.file('d/1').setMetadata({contentType: 'text/x', metadata: {run: '7'}});
    const [metadata] = await bucket.file('d/1').getMetadata();
    assert.deepEqual([metadata.contentType, metadata.metadata], ['text/x', {run: '7'}]);
  },
  async 'copy, move and combine'() {
    await bucket.file('d/1').copy(bucket.file('f/ü #1'));
    await bucket.file('d/2').move(bucket.file('g+'));
    await bucket.combine(['f/ü #1', 'g+'], 'all');
    const [body] = await bucket.file('all').download();
    assert.equal(body.toString(), 'xx');
  },
  async 'what is stored compressed is read plain'() {
    await bucket.file('z').save('hello '.repeat(1000), {gzip: true});
    const [body] = await bucket.file('z').download();
    assert.equal(body.toString(), 'hello '.repeat(1000));
  },
  async 'parts in parallel: TransferManager'() {
    const {TransferManager} = createRequire(`${process.cwd()}/`)('@google-cloud/storage');
    const manager = new TransferManager(bucket);
    await manager.downloadFileInChunks('large', {
      chunkSizeBytes: 1 << 20, destination: join(scratch, 'chunks'), validation: 'crc32c',
    });
    assert(readFileSync(join(scratch, 'chunks')).equals(readFileSync(join(scratch, 'large'))));
  },
  async 'delete all, then the bucket'() {
    assert.equal(await code(bucket.delete()), 409);
    await bucket.deleteFiles();
    await bucket.delete();
    const [exists] = await bucket.exists();
    assert.equal(exists, false);
  },
};

for (const [name, story] of Object.entries(stories)) {
  const result = await story().then(() => 'ok', error => `${error.message}`.split('\n')[0]);
  process.stdout.write(`${JSON.stringify([name, result])}\n`);
}
