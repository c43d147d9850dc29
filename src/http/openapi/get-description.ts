// The API description, for anyone who asks: it says nothing about any partner.

import { z } from 'zod'
import { VERSION } from '../../version.ts'
import { type Route, route } from '../route.ts'
import { describeApi } from './document.ts'

/** Made once: callers without a key must not be able to keep the service busy with it. */
let made: string | undefined

function description(): string {
  made ??= JSON.stringify(describeApi(VERSION))
  return made
}

export const getDescription: Route = {
  ...route({
    method: 'GET',
    path: '/openapi.json',
    answer: z.record(z.string(), z.unknown()),
    handle: async () => describeApi(VERSION),
  }),
  text: description,
}
