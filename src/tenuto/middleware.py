"""Functions that wrap a call: the public names of the middleware modules of `tenuto.client`."""

from tenuto.client.budget import Budget as Budget
from tenuto.client.budget import budget as budget
from tenuto.client.cache import Cache as Cache
from tenuto.client.cache import CacheStore as CacheStore
from tenuto.client.cache import cache as cache
from tenuto.client.middleware import LogEntry as LogEntry
from tenuto.client.middleware import NextResponse as NextResponse
from tenuto.client.middleware import Retry as Retry
from tenuto.client.middleware import Timeout as Timeout
from tenuto.client.middleware import fallback as fallback
from tenuto.client.middleware import logger as logger
from tenuto.client.middleware import response_middleware as response_middleware
from tenuto.client.middleware import retry as retry
from tenuto.client.middleware import timeout as timeout
from tenuto.client.pipeline import Middleware as Middleware
from tenuto.client.pipeline import Next as Next
from tenuto.client.pipeline import closing as closing
from tenuto.client.pipeline import compose as compose
from tenuto.client.rates import RateLimit as RateLimit
from tenuto.client.rates import rate_limit as rate_limit
