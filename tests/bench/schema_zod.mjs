// SPDX-License-Identifier: Apache-2.0
// Schemas that Zod 4 makes of random types, one a line, for schema_suite.py.
//
// usage: node schema_zod.mjs FOLDER [N [SEED]] > FILE.jsonl    (300 of seed 1)
//     FOLDER has Zod: npm install --prefix FOLDER zod
//
// Every third is for draft 7. Types of what comes in and of what goes out differ in defaults.
import { createRequire } from "node:module";
import path from "node:path";

const [folder, count = "300", seed = "1"] = process.argv.slice(2);
const { z } = createRequire(path.resolve(folder) + "/")("zod");
const names = ["id", "name", "kind", "tags", "size", "when", "owner", "parts", "x-y", "größe"];

let state = Number(seed) >>> 0;
function below(n) { // xorshift of 32 bits behind a step, that seeds of one bit differ, too
  state = (state + 0x9e3779b9) >>> 0;
  let x = state;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return ((x ^ (x >>> 15)) >>> 0) % n;
}
const one = (list) => list[below(list.length)];

const tree = z.strictObject({ value: z.int(), get children() { return z.array(tree).max(2); } });
const plain = [
  () => z.int().min(one([0, -5, 1000])).max(one([1001, 1100, 70000])),
  () => z.number().gte(0).lt(1), () => z.int().multipleOf(5).max(500), () => z.boolean(),
  () => z.string().max(3 + below(10)), () => z.string().min(1).max(8), () => z.string().length(4),
  () => z.string().regex(/^[A-Z]{2}-\d+$/), () => z.string().startsWith("usr_").max(12),
  () => z.string().includes("@").max(12), () => z.string().endsWith(".txt").max(12),
  () => z.enum(["red", "green", "größe", ""]), () => z.literal(["a", "b", 3, null]),
  () => z.email(), () => z.uuid(), () => z.url(), () => z.ipv4(), () => z.cuid2(),
  () => z.iso.date(), () => z.iso.datetime(), () => z.iso.time(), () => z.e164(),
  () => z.templateLiteral(["v", z.int(), ".", z.enum(["a", "b"])]),
];
const nested = [
  (d) => z.array(any(d)).max(1 + below(3)), (d) => z.array(any(d)).nonempty().max(3),
  (d) => any(d).nullable(), (d) => any(d).describe("what it is"), (d) => any(d).readonly(),
  (d) => z.union([any(d), one(plain)()]), () => z.tuple([one(plain)(), one(plain)()]),
  () => z.tuple([one(plain)()], z.boolean()), () => z.record(z.string(), one(plain)()),
  () => z.record(z.enum(["left", "right"]), one(plain)()), () => tree,
  () => z.partialRecord(z.enum(["up", "down"]), one(plain)()),
  (d) => z.discriminatedUnion("kind", ["cat", "dog"].map((kind) =>
    object(d, { kind: z.literal(kind) }))),
  (d) => z.intersection(object(d), z.object({ more: one(plain)() })),
  (d) => object(d), (d) => object(d), (d) => object(d).partial(),
];
function any(depth) {
  return depth > 2 || below(10) < 5 ? one(plain)() : one(nested)(depth + 1);
}
function member(depth) {
  const type = any(depth);
  return one([type, type, type, type.optional(), type.nullish()]);
}
function object(depth, more = {}) {
  const shape = { ...more };
  for (let n = 1 + below(4); n > 0; n--) {
    const name = one(names);
    if (!(name in more)) shape[name] = member(depth + 1);
  }
  return one([z.object, z.strictObject, z.looseObject])(shape);
}

for (let i = 0; i < Number(count); i++)
  console.log(JSON.stringify(z.toJSONSchema(object(0), {
    target: i % 3 === 2 ? "draft-7" : "draft-2020-12", io: one(["input", "output"]) })));
