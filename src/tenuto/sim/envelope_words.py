"""What each provider says for a status when there is nothing more special to say."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["WORDS", "Words"]


class Words(NamedTuple):
    """The type, code and message of an error. For OpenRouter: the upstream's name and what it said."""

    type: str
    code: str
    message: str


_INVALID = "invalid_request_error"
_ALGO = "<500> InternalError.Algo: An error occurred in model serving, error message is: [Internal server error!]"

WORDS: dict[str, dict[int, Words]] = {
    "anthropic": {
        400: Words(_INVALID, "", "Error"),
        401: Words("authentication_error", "", "invalid x-api-key"),
        402: Words("billing_error", "", "Your credit balance is too low to access the Anthropic API."),
        403: Words(
            "permission_error", "", "Your API key does not have permission to use the specified resource."
        ),
        404: Words("not_found_error", "", "Not found"),
        409: Words("conflict_error", "", "Conflict"),
        413: Words("request_too_large", "", "Request exceeds the maximum size"),
        429: Words(
            "rate_limit_error", "", "This request would exceed your organization's rate limit of 50 requests per minute."
        ),
        500: Words("api_error", "", "Internal server error"),
        503: Words("api_error", "", "Service temporarily unavailable"),
        504: Words("timeout_error", "", "Request timed out"),
        529: Words("overloaded_error", "", "Overloaded"),
    },
    "openai": {
        400: Words(_INVALID, "", "Invalid request."),
        401: Words(
            _INVALID,
            "invalid_api_key",
            "Incorrect API key provided: sim-****-key. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
        ),
        402: Words("insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        403: Words(
            "request_forbidden",
            "unsupported_country_region_territory",
            "Country, region, or territory not supported",
        ),
        404: Words(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        409: Words("conflict_error", "", "Conflict"),
        413: Words(_INVALID, "", "Request body too large"),
        429: Words(
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached in organization org-sim on requests per min (RPM): Limit 500, Used 500, Requested 1. "
            "Please try again in 120ms.",
        ),
        500: Words(
            "server_error", "", "The server had an error while processing your request. Sorry about that!"
        ),
        502: Words("server_error", "", "Bad gateway"),
        503: Words(
            "service_unavailable_error",
            "server_is_overloaded",
            "Our servers are currently overloaded. Please try again later.",
        ),
        504: Words("server_error", "", "The request timed out."),
        529: Words("service_unavailable_error", "server_is_overloaded", "Overloaded"),
    },
    "azure": {
        401: Words(
            "",
            "401",
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for "
            "an active subscription and use a correct regional API endpoint for your resource.",
        ),
        403: Words("", "403", "Access denied due to Virtual Network/Firewall rules."),
        404: Words(
            _INVALID,
            "DeploymentNotFound",
            "The API deployment for this resource does not exist. If you created the deployment within the last 5 "
            "minutes, please wait a moment and try again.",
        ),
        429: Words("", "RateLimitReached", "Your requests in westeurope have exceeded rate limit."),
    },
    "deepseek": {
        400: Words(_INVALID, _INVALID, "Invalid request."),
        401: Words("authentication_error", _INVALID, "Authentication Fails, Your api key: ****-key is invalid"),
        402: Words("unknown_error", _INVALID, "Insufficient Balance"),
        404: Words(_INVALID, _INVALID, "Not Found"),
        422: Words(_INVALID, _INVALID, "Invalid Parameters"),
        429: Words("rate_limit_error", "rate_limit_error", "Rate Limit Reached"),
        500: Words("server_error", "internal_error", "Server Error"),
        503: Words(
            "service_unavailable_error", "service_unavailable_error", "Service is too busy. Please try again later."
        ),
    },
    "moonshot": {
        400: Words(_INVALID, "", "Invalid request"),
        401: Words("invalid_authentication_error", "", "Invalid Authentication"),
        402: Words("exceeded_current_quota_error", "", "Your account is suspended, please check your plan and billing"),
        403: Words("permission_denied_error", "", "The API you are accessing is not open"),
        404: Words("resource_not_found_error", "", "Not found the model or Permission denied"),
        429: Words("rate_limit_reached_error", "", "Your account request reached organization max RPM, please try again"),
        500: Words("server_error", "", "Server error"),
        503: Words("engine_overloaded_error", "", "The engine is currently overloaded, please try again later"),
        529: Words("engine_overloaded_error", "", "The engine is currently overloaded, please try again later"),
    },
    "mistral": {
        400: Words(_INVALID, "3051", "Invalid request."),
        401: Words("", "", "Invalid API Key"),
        402: Words("invalid_request_payment", "1901", "Payment required"),
        403: Words("forbidden", "1910", "Forbidden"),
        404: Words("invalid_model", "1500", "Invalid model"),
        422: Words("invalid_request_error", "", "Extra inputs are not permitted"),
        429: Words("rate_limited", "1300", "Rate limit exceeded"),
        500: Words("internal_server_error", "1000", "Internal server error"),
        503: Words("service_unavailable", "3505", "Service unavailable."),
        529: Words("service_tier_capacity_exceeded", "3505", "Service tier capacity exceeded for this model."),
    },
    "groq": {
        400: Words(_INVALID, "", "Invalid request."),
        401: Words(_INVALID, "invalid_api_key", "Invalid API Key"),
        404: Words(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        413: Words(_INVALID, "request_too_large", "Request Entity Too Large"),
        429: Words(
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached in organization `org_sim` service tier `on_demand` on requests per minute (RPM): "
            "Limit 30, Used 30, Requested 1. Please try again in 2s.",
        ),
        500: Words("internal_server_error", "", "Internal Server Error"),
        503: Words("internal_server_error", "", "Service Unavailable"),
    },
    "xai": {
        400: Words("", "invalid-argument", "Invalid request."),
        401: Words("", "unauthenticated:bad-credentials", "Incorrect API key provided. Get one at https://console.x.ai."),
        402: Words("", "resource-exhausted", "Your team has run out of credits."),
        403: Words("", "permission-denied", "The caller does not have permission to execute the specified operation"),
        404: Words("", "not-found", "Some requested entity was not found"),
        413: Words("", "invalid-argument", "Request body too large"),
        429: Words("", "resource-exhausted", "Too many requests. Please try again later."),
        500: Words("", "internal", "Internal error"),
        503: Words("", "unavailable", "Service temporarily unavailable. The model is at capacity."),
        504: Words("", "deadline-exceeded", "The deadline expired before the operation could complete"),
        529: Words("", "unavailable", "Service temporarily unavailable. The model is at capacity."),
    },
    "openrouter": {
        400: Words("", "", "Invalid request."),
        401: Words("", "", "Missing Authentication header"),
        402: Words("", "", "Insufficient credits. Add more using https://openrouter.ai/settings/credits"),
        403: Words("", "", "Your chosen model requires moderation and your input was flagged"),
        404: Words("", "", "No endpoints found."),
        413: Words("", "", "Request entity too large"),
        429: Words(
            "Google",
            "The model is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate "
            "your rate limits: https://openrouter.ai/settings/integrations",
            "Provider returned error",
        ),
        500: Words("", "", "Internal Server Error"),
        502: Words("", "", "Provider returned error"),
        503: Words("Google", "The model is overloaded.", "Provider returned error"),
        504: Words("", "", "The operation was aborted"),
        529: Words("", "", "Provider returned error"),
    },
    "perplexity": {
        400: Words("bad_request", "", "Bad request"),
        401: Words(
            "invalid_api_key", "", "Invalid API key provided. Ensure your API key is correct and active."
        ),
        402: Words("insufficient_quota", "", "You have insufficient credits."),
        404: Words("not_found", "", "Not found"),
        429: Words("request_rate_limit_exceeded", "", "Request rate limit exceeded, please try again later."),
        500: Words("internal_server_error", "", "Internal server error"),
        503: Words("service_unavailable", "", "Service unavailable"),
    },
    "cohere": {
        400: Words("", "", "invalid request"),
        401: Words("", "", "Incorrect API key provided. You can find your API key at https://dashboard.cohere.com/api-keys."),
        402: Words("", "", "payment required"),
        403: Words("", "", "forbidden"),
        404: Words("", "", "model not found, make sure the correct model ID was used and that you have access to the model."),
        413: Words("", "", "request body too large"),
        429: Words("", "", "You are past the per minute request limit, please wait and try again later."),
        500: Words("", "", "internal server error"),
        503: Words("", "", "service unavailable"),
        504: Words("", "", "request timed out"),
        529: Words("", "", "service unavailable"),
    },
    "ollama": {
        400: Words(_INVALID, "", "invalid request"),
        401: Words("api_error", "", "Unauthorized"),
        403: Words("api_error", "", "Forbidden"),
        404: Words("not_found_error", "", "model not found"),
        413: Words("api_error", "", "request body too large"),
        429: Words("api_error", "", "too many concurrent requests"),
        500: Words("api_error", "", "an error was encountered while running the model"),
        503: Words("api_error", "", "server busy, please try again. maximum pending requests exceeded"),
        504: Words("api_error", "", "timed out waiting for the model to load"),
        529: Words("api_error", "", "server busy, please try again. maximum pending requests exceeded"),
    },
    "zai": {
        400: Words("", "1210", "API Call Parameter Error, please check the documentation."),
        401: Words("", "1001", "Header Authorization Not Received, Unable to Verify Identity."),
        402: Words("", "1113", "Insufficient balance or no resource package. Please recharge."),
        403: Words("", "1220", "You do not have permission to access this model."),
        404: Words("", "1211", "Unknown Model, please check the model code."),
        413: Words("", "1261", "Prompt exceeds max length"),
        429: Words("", "1302", "High concurrency usage of this API, please reduce concurrency or contact customer service."),
        500: Words("", "500", "Internal Error"),
        503: Words("", "1305", "The service is temporarily overloaded, please try again later."),
        504: Words("", "1234", "Network error, please try again later."),
        529: Words("", "1305", "The service is temporarily overloaded, please try again later."),
    },
    "alibaba": {
        400: Words(_INVALID, "invalid_parameter_error", "<400> InternalError.Algo.InvalidParameter: Invalid request."),
        401: Words(_INVALID, "invalid_api_key", "Incorrect API key provided."),
        402: Words("Arrearage", "Arrearage", "Access denied, please make sure your account is in good standing."),
        403: Words("access_denied", "access_denied", "Access denied."),
        404: Words(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        413: Words(_INVALID, "invalid_parameter_error", "<413> InternalError.Algo.InvalidParameter: Request too large."),
        429: Words("limit_requests", "limit_requests", "You exceeded your current requests list."),
        500: Words("internal_error", "internal_error", _ALGO),
        503: Words("service_unavailable", "service_unavailable", "Too many requests in route. Please try again later."),
        504: Words("request_timeout", "request_timeout", "Request timed out, please try again later."),
        529: Words("service_unavailable", "service_unavailable", "Too many requests in route. Please try again later."),
    },
    "minimax": {
        400: Words("bad_request_error", "", "invalid params (2013)"),
        401: Words("authorized_error", "", "login fail: Please carry the API secret key in the header (1004)"),
        402: Words("insufficient_balance_error", "", "insufficient balance (1008)"),
        403: Words("permission_error", "", "no permission (2061)"),
        404: Words("not_found_error", "", "unknown model (2013)"),
        413: Words("bad_request_error", "", "request body too large (2013)"),
        429: Words("rate_limit_error", "", "rate limit exceeded(RPM) (1002)"),
        500: Words("server_error", "", "unknown error (1000)"),
        503: Words("overloaded_error", "", "The server cluster is currently under high load (2064)"),
        504: Words("server_error", "", "timeout (1001)"),
        529: Words("overloaded_error", "", "The server cluster is currently under high load (2064)"),
    },
    "fireworks": {
        400: Words(_INVALID, "", "Invalid request."),
        401: Words("error", "UNAUTHORIZED", "The API key you provided is invalid."),
        402: Words("error", "PAYMENT_REQUIRED", "Account suspended: reached spending limit."),
        403: Words("error", "FORBIDDEN", "unauthorized"),
        404: Words("error", "NOT_FOUND", "Model not found, inaccessible, and/or not deployed"),
        413: Words(_INVALID, "", "Request body too large"),
        429: Words("error", "RATE_LIMIT_EXCEEDED", "Request didn't generate first token before the given deadline"),
        500: Words("internal_server_error", "", "server had an error while processing your request, please retry"),
        503: Words("error", "SERVICE_UNAVAILABLE", "Service is temporarily overloaded, please try again later"),
        504: Words("error", "DEADLINE_EXCEEDED", "The request timed out"),
        529: Words("error", "SERVICE_UNAVAILABLE", "Service is temporarily overloaded, please try again later"),
    },
    "google": {
        400: Words("INVALID_ARGUMENT", "", "Request contains an invalid argument."),
        401: Words(
            "UNAUTHENTICATED",
            "",
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
            "authentication credential.",
        ),
        402: Words("FAILED_PRECONDITION", "", "Billing is not enabled for this project."),
        403: Words("PERMISSION_DENIED", "", "The caller does not have permission"),
        404: Words("NOT_FOUND", "", "The model is not found for API version v1beta, or is not supported."),
        409: Words("ABORTED", "", "The operation was aborted."),
        413: Words("INVALID_ARGUMENT", "", "Request payload size exceeds the limit: 20971520 bytes."),
        429: Words("RESOURCE_EXHAUSTED", "", "You exceeded your current quota, please check your plan."),
        499: Words("CANCELLED", "", "The operation was cancelled."),
        500: Words("INTERNAL", "", "An internal error has occurred. Please retry or report in the developer forum."),
        502: Words("UNAVAILABLE", "", "Bad gateway"),
        503: Words("UNAVAILABLE", "", "The model is overloaded. Please try again later."),
        504: Words("DEADLINE_EXCEEDED", "", "Deadline expired before operation could complete."),
        529: Words("UNAVAILABLE", "", "The model is overloaded. Please try again later."),
    },
}  # fmt: skip
