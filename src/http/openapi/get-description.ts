// The API description, to anyone who asks: it says nothing of any partner.

import { z } from 'zod'
import { VERSION } from '../../version.ts'
import { type Route, route } from '../route.ts'
import { describeApi } from './document.ts'

/** Made once: whoever has no key must not be able to keep the service busy with it. */
let made: ReturnType<typeof describeApi> | undefined

export const getDescription: Route = {
  ...route({
    method: 'GET',
    path: '/openapi.json',
    answer: z.record(z.string(), z.unknown()),
    handle: async () => {
      made ??= describeApi(VERSION)
      return made
    },
  }),
  public: true,
}
