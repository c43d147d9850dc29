// A few seconds of the fuzzer, and what it must be able to see. `npm run fuzz` goes on for as long as one likes.

import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { machine } from '../../src/machine.ts'
import { USER, PLAN } from '../support/service.ts'
import { head } from '../http/raw.ts'
import { allAnswers } from './answers.ts'
import { createClient } from './client.ts'
import { type FuzzReport, fuzz } from './fuzz.ts'
import { assertFlat, growthOf } from './memory.ts'
import { OPERATIONS } from './operations.ts'
import { createOwners, judge } from './oracle.ts'
import type { Request } from './requests.ts'
import { anyPlay } from './steps.ts'
import { startTarget } from './target.ts'

const REQUESTS = 1_500
