// The Python that `python3` comes to. Where that is a script of a version manager, each start of it takes a tenth of a
// second of the processor before Python begins, so it is asked once.

import { execFileSync } from 'node:child_process'

const ITSELF = 'import sys; print(sys.executable)'

export const PYTHON = execFileSync('python3', ['-c', ITSELF], { encoding: 'utf8' }).trim()
