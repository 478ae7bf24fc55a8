// issuer.mjs MODULES PORT RESOURCE: an OpenID provider (oidc-provider) that gives tokens for one resource. Everybody signs in as whom they say.
import { pathToFileURL } from 'node:url'

const [modules, port, resource] = process.argv.slice(2)
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`).href)

const provider = new Provider(`http://127.0.0.1:${port}`, {
  scopes: ['openid', 'offline_access', 'runtime:read', 'runtime:use'],
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({ scope: 'runtime:read runtime:use', audience: resource, accessTokenFormat: 'jwt' }),
      useGrantedResource: () => true,
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
})
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'))
