// tranche docs: every guide is a topic and shown unchanged, and every link of a page leads somewhere.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { anchors, findExamples, findGuides, findTopic } from '../../src/cli/reference/guides.ts'
import { each } from '../store/world.ts'
import { runHere } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = findGuides()
const GUIDES = globSync('docs/*.md', { cwd: ROOT }).map((file) => basename(file, '.md'))

/** The links of a page outside its code blocks. */
const linksOf = (text: string): string[] =>
  [...text.replace(/^ *```[\s\S]*?^ *```/gm, '').matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target)

test('every guide is a topic, with a line that is its title', async () => {
  const { code, out, err } = await runHere(['docs', '--json'])
  assert.deepEqual([code, err], [0, ''])
  const topics = JSON.parse(out) as { topic: string; title: string }[]
  const names = topics.map(({ topic }) => topic)
  assert.deepEqual(names, [...GUIDES, 'changelog', 'decisions', 'deploy', 'examples', 'readme'].sort())
  for (const { topic, title } of topics) assert.match(title, /^\S.*\S$/, topic)
  const words = await runHere(['docs'])
  for (const { topic, title } of topics)
    assert.match(words.out, new RegExp(`^${topic} +${title.slice(0, 9)}`, 'm'))
})

test('a topic is the page itself, on a terminal too', async () => {
  for (const name of GUIDES) {
    const source = readFileSync(join(ROOT, 'docs', `${name}.md`), 'utf8')
    assert.deepEqual(await runHere(['docs', name]), { code: 0, out: source, err: '' })
    assert.equal((await runHere(['docs', name], { terminals: ['stdout', 'stderr'] })).out, source)
    const { text, topic } = JSON.parse((await runHere(['docs', name, '--json'])).out)
    assert.deepEqual([topic, text], [name, source])
  }
})

test('a topic is found by its beginning, by its file, and with a section as a link has it', async () => {
  for (const asked of ['operations', 'op', 'operations.md', 'docs/operations.md', 'docs/operations'])
    assert.equal(findTopic(PAGES, asked).topic, 'operations', asked)
  assert.equal(findTopic(PAGES, 'decisions/cl').path, 'docs/decisions/clock.md')
  assert.equal(findTopic(PAGES, 'README.md').topic, 'readme')
  assert.equal(findTopic(PAGES, '../deploy/README.md').topic, 'deploy')
  const { out } = await runHere(['docs', 'operations.md#the-drill'])
  assert.match(out, /^### The drill\n/)
  const whole = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
  assert.ok(whole.includes(out.trimEnd()) && out.match(/^#{1,3} /gm)?.length === 1, out)
})

test('a sample program is a topic: found by its path, and shown as it is', async () => {
  const name = 'examples/python/partner.py'
  const source = readFileSync(join(ROOT, 'docs', name), 'utf8')
  for (const asked of [name, `docs/${name}`, 'examples/python/part'])
    assert.deepEqual(await runHere(['docs', asked]), { code: 0, out: source, err: '' }, asked)
  const several = await runHere(['docs', 'examples/python'])
  assert.match(several.err, /may be any of examples\/python\/paper_venue\.py, .*wake_up\.py\./)
  assert.match((await runHere(['docs', `${name}#venue`])).err, /has no sections/)
  assert.equal((await runHere(['docs', name, '--examples', 'x'])).code, 2)
  assert.equal((await runHere(['docs', '--examples', 'x', '--force'])).code, 2)
})

test('an unknown topic is a usage error that names the known ones', async () => {
  const cases: [asked: string, says: RegExp][] = [
    ['nonsense', /nonsense is not a topic; the topics are api, .*webhooks\./],
    ['s', /s may be any of sandbox, security\./],
    ['#backups', /'' is not a topic/],
    ['operations#nonsense', /operations has no section nonsense; it has .*backups/],
    ['../../etc/passwd', /is not a topic/],
    ['constructor', /is not a topic/],
  ]
  for (const [asked, says] of cases) {
    const { code, out, err } = await runHere(['docs', asked])
    assert.deepEqual([code, out], [2, ''], asked)
    assert.match(err, says)
  }
})

test('every link of every page leads to a page and a section of it, or to a file of the source', () => {
  const all = [...PAGES, ...findExamples()]
  let seen = 0
  for (const page of PAGES) {
    for (const target of linksOf(page.text).filter((link) => !/^[a-z]+:/.test(link))) {
      const [file = '', anchor] = target.split('#')
      const path = file === '' ? page.path : join(dirname(page.path), file)
      const linked = all.find((one) => one.path === path)
      const where = `${page.path}: ${target}`
      if (linked && anchor) assert.ok(findTopic([linked], `${linked.topic}#${anchor}`), where)
      else assert.ok(linked || existsSync(join(ROOT, path)), where)
      // A reader gives `docs` the link of a guide as it is written there.
      if (linked && file !== '' && /^(docs\/)?[^/]+$/.test(page.path))
        assert.equal(findTopic(all, target).path, linked.path, where)
      seen += 1
    }
  }
  assert.ok(seen > 200, `${seen} links`)
})

test('every section that the program, a page or an alert rule gives to `tranche docs` exists', () => {
  const texts = globSync(['src/**/*.ts', 'docs/**/*.md', 'deploy/**/*.*', 'README.md'], { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
  const topics = GUIDES.join('|')
  const given = new Set(
    [...texts.matchAll(new RegExp(`(?<=docs |['\`])(?:${topics})#[a-z0-9_-]+`, 'g'))].map(([name]) => name),
  )
  assert.ok(given.size > 10, [...given].join())
  for (const name of given) assert.ok(findTopic(PAGES, name), name)
  const quoted = [...texts.matchAll(/see "([^"]+)" in[\s'`+]*\\?`tranche docs (\w+)/g)]
  assert.ok(quoted.length > 3, `${quoted.length} sections by their title`)
  for (const [, title = '', topic = ''] of quoted) {
    const titles = anchors(findTopic(PAGES, topic).text).map(({ anchor }) => anchor)
    assert.ok(titles.includes(title.toLowerCase().replaceAll(' ', '-')), `${topic}: ${title}`)
  }
})

test('the anchors are those that code hosts make', () => {
  const page = '# A\n## What `check` finds, & more\n```\n## no heading\n```\n## A\n### a_b (_c_)\n'
  assert.deepEqual(each(anchors(page), 'anchor'), ['a', 'what-check-finds--more', 'a-1', 'a_b-c'])
})
